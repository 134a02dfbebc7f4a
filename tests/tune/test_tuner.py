"""The tuner on one small variant: what it searches, what it makes of bad candidates, and that it can be interrupted."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

from places import BUILD, ROOT, require_tuner

require_tuner()

import check  # noqa: E402
import measure  # noqa: E402
import optuna  # noqa: E402
import page  # noqa: E402
import pytest  # noqa: E402
import space  # noqa: E402
from candidates import Rejected, Workshop  # noqa: E402
from measure import Meter, Runnable  # noqa: E402
from search import Search, Settings, stored  # noqa: E402

WORKLOAD = "mapping_decoder"


def settings(**changed: Any) -> Settings:
    return Settings(**{"workloads": [WORKLOAD], "threads": 1, "minutes": 5, "seconds": 0.01, "trials": 5, **changed})


def search_of(subject: space.Subject, workshop: Workshop, folder: Path, **changed: Any) -> Search:
    return Search(workshop.build, subject, workshop, folder, settings(**changed), subject.standard())


def test_every_knob_of_the_headers_is_searched(build: space.Build) -> None:
    for variant in build.variants.values():
        header = (ROOT / f"schedules/{variant.operator}_knobs.h").read_text()
        for knob in variant.knobs:
            assert f"{knob.kind.upper()}({knob.name}, " in header
            assert knob.meaning in header
            steps = knob.steps()
            assert steps == sorted(set(steps))
            assert steps[0] == knob.lowest and steps[-1] == knob.highest and knob.standard in steps
            assert all(b <= 2 * a or b - a == 1 for a, b in itertools.pairwise(steps)), knob
    (da,) = [v for v in build.variants.values() if v.name == "da_forward_f32_sse41"]
    assert [k.name for k in da.knobs if k.kind == "schedule"] == ["accumulators", "visible_vector"]


def test_params_that_make_no_sense_are_refused(subject: space.Subject, tmp_path: Path) -> None:
    file = tmp_path / f"{subject.row}.params"
    file.write_text("# found somewhere\ntask_samples=96\n")
    assert space.read_params([tmp_path], subject)[f"{subject.row}.task_samples"] == 96
    assert space.read_params([tmp_path / "nowhere"], subject) == subject.standard()
    for line in ("task_sample=96", "task_samples=0", "task_samples=many", "task_samples", "task_samples=9" * 9):
        file.write_text(f"tasks_per_thread=2\n{line}\n")
        with pytest.raises(ValueError, match=rf"{subject.row}.params:2: "):
            space.read_params([tmp_path], subject)


def test_results_are_what_the_build_reads(subject: space.Subject, tmp_path: Path) -> None:
    name = f"{subject.row}.task_samples"
    values = {**subject.standard(), name: 96}
    result = space.Result(values, 2, 1.01, 1.25, {WORKLOAD: (2.0, 1.6)})
    (path,) = space.write_params(tmp_path, subject, result, "a machine")
    assert space.read_params([tmp_path], subject) == values
    text = path.read_text()
    assert all(word in text for word in ("a machine", "1.250", WORKLOAD, "2.000 ms", "1.600"))
    script = tmp_path / "read.cmake"
    script.write_text(
        f"include({ROOT}/cmake/DeformkitKnobs.cmake)\ndeformkit_read_knobs(gka)\ndeformkit_read_params(gka_forward {path})\n"
        'message("${DEFORMKIT_VALUES}")\n'
    )
    read = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, check=True)
    assert read.stderr.startswith("96;")
    # Back at the defaults, no file says otherwise.
    assert space.write_params(tmp_path, subject, dataclasses.replace(result, values=subject.standard()), "a machine") == []
    assert not path.exists()


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.params"
    space.write_atomically(path, "old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        space.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_candidate_that_does_not_compile_is_rejected(subject: space.Subject, build: space.Build, tmp_path: Path) -> None:
    (variant,) = subject.variants
    params = {"samples_at_once": 2}
    broken = tmp_path / "generator"
    for text, why in (("exit 3", "status 3"), ("kill -SEGV $$", "status -11"), ("exit 0", "wrote no object")):
        broken.write_text(f"#!/bin/sh\necho what the compiler said\n{text}\n")
        broken.chmod(0o755)
        shop = Workshop(dataclasses.replace(build, generators={"gka": broken}), tmp_path / "objects")
        with pytest.raises(Rejected, match=why) as rejected:
            shop.kernel(variant, params)
        assert rejected.value.kind == "compile"
        assert list((tmp_path / "objects").iterdir()) == []


def test_an_endless_compiler_is_ended(
    subject: space.Subject, build: space.Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("candidates.GENERATOR_SECONDS", 1)
    (variant,) = subject.variants
    endless = tmp_path / "generator"
    for text in ("while true; do :; done", "sleep 1000"):
        endless.write_text(f"#!/bin/sh\n{text}\n")
        endless.chmod(0o755)
        shop = Workshop(dataclasses.replace(build, generators={"gka": endless}), tmp_path / "objects")
        with pytest.raises(Rejected):
            shop.kernel(variant, {"samples_at_once": 2})


def test_bad_candidates_are_found_by_the_check(
    build: space.Build, subject: space.Subject, workshop: Workshop, impostors: dict[str, Runnable], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    right = Runnable(workshop.library(subject, subject.standard()), {})
    check.require_right(build, subject, right, tmp_path, thorough=True)
    monkeypatch.setattr(check, "CHECK_SECONDS", 5)
    for kind, impostor in impostors.items():
        with pytest.raises(Rejected) as rejected:
            check.require_right(build, subject, impostor, tmp_path, thorough=False)
        assert rejected.value.kind == kind
    assert list(tmp_path.glob("*.params")) == []


def test_bad_candidates_take_nothing_with_them_when_they_are_timed(
    build: space.Build, subject: space.Subject, workshop: Workshop, impostors: dict[str, Runnable]
) -> None:
    right = Runnable(workshop.library(subject, subject.standard()), {})
    with Meter(build.folder, subject.pass_name, "f32", "sse41", [WORKLOAD], threads=1) as meter:
        for kind, impostor in impostors.items():
            with pytest.raises(Rejected, match=WORKLOAD) as rejected:
                list(meter.compare(right, impostor, seconds=0.01, patience=2))
            assert rejected.value.kind == kind
            # The same process goes on with the next.
            (times,) = meter.compare(right, right, seconds=0.05)
            assert times.workload == WORKLOAD and 0 < times.best < 1 and 0 < times.candidate < 1
        meter.compare(right, right, seconds=0.01).close()  # not begun
        stopped = meter.compare(right, right, seconds=0.01)
        next(stopped)
        stopped.close()  # seen enough
        assert len(list(meter.compare(right, right, seconds=0.01))) == 1


def test_a_search_goes_on_after_bad_candidates_and_keeps_why(
    host_subject: space.Subject,
    workshop: Workshop,
    impostors: dict[str, Runnable],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check, "CHECK_SECONDS", 5)
    bad = dict(zip((1, 2, 3), impostors.items()))

    def tamper(number: int, runnable: Runnable) -> Runnable:
        if number == 4:
            raise Rejected("compile", "the compiler did not like it")
        return bad[number][1] if number in bad else runnable

    search = search_of(host_subject, workshop, tmp_path, trials=7, tamper=tamper)
    search.run(lambda progress: None)
    trials = search.study.get_trials()
    assert len(trials) >= 7
    for number, (kind, _) in bad.items():
        assert trials[number].state == optuna.trial.TrialState.FAIL
        assert trials[number].user_attrs["rejected"] == kind and trials[number].user_attrs["why"]
    assert trials[4].user_attrs["rejected"] == "compile"
    assert sum(t.state != optuna.trial.TrialState.FAIL for t in trials) >= 3
    assert trials[0].user_attrs["values"] == host_subject.standard(), "the start is measured like any other"


def test_a_search_goes_on_where_it_ended(host_subject: space.Subject, workshop: Workshop, tmp_path: Path) -> None:
    first = search_of(host_subject, workshop, tmp_path, trials=3)
    first.run(lambda progress: None)
    values = first.study.trials[1].user_attrs["values"]
    first.study.ask()  # and its process dies
    # As if the second had won by a half.
    storage = first.study._storage
    storage.create_new_trial(first.study._study_id, template_trial=_won(first.study.trials[1]))

    second = search_of(host_subject, workshop, tmp_path, trials=3)
    assert second.name == first.name
    assert second.best() == (values, {WORKLOAD: 0.5})
    assert all(t.state.is_finished() for t in second.study.trials), "what was under way is no longer"
    shown = []
    second.run(lambda progress: shown.append(progress.best))
    assert shown[0] == pytest.approx(2)
    assert len(second.study.trials) >= 8
    # Other workloads or threads: nothing of it counts.
    assert search_of(host_subject, workshop, tmp_path, threads=2).best()[1] == {}
    assert len(stored(tmp_path)) == 2


def _won(trial: optuna.trial.FrozenTrial) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        params=trial.params,
        distributions=trial.distributions,
        value=-0.7,
        user_attrs={"values": trial.user_attrs["values"], "won": True, "ratios": {WORKLOAD: 0.5}},
    )


def test_what_wins_by_luck_is_not_written(
    host_subject: space.Subject, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_of(host_subject, workshop, tmp_path)
    other = {**host_subject.standard(), f"{host_subject.row}.packed_bytes": 1 << 20}
    assert search.final(other, noise=1.5) is None, "the same speed is no gain"
    monkeypatch.setattr(search, "times", lambda *_, **__: {WORKLOAD: (0.002, 0.001)})
    result = search.final(other, noise=1.5)
    assert result is not None and result.ratio == pytest.approx(2) and result.milliseconds == {WORKLOAD: (2, 1)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_search_loses_nothing(number: signal.Signals, tmp_path: Path, objects: Path) -> None:
    out, folder = tmp_path / "out", tmp_path / "tune"
    command = [sys.executable, str(ROOT / "tools/tune"), "--build-dir", str(BUILD), "--folder", str(folder), "--out", str(out)]
    command += ["^gka_forward_f32_sse41$", "--workload", WORKLOAD, "--seconds", "0.01", "--minutes", "5", "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.setpgid(0, 0))
    try:
        deadline = time.monotonic() + 240
        while _finished(folder) < 2:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
    finally:
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert "goes on from there" in errors
    assert not out.exists() or list(out.iterdir()) == []
    before = _finished(folder)
    assert before >= 2
    (study,) = stored(folder)  # and it can be read
    done = subprocess.run([*command, "--minutes", "0.02", "--trials", "1"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert _finished(folder) >= before
    if number == signal.SIGINT:
        made = [p for p in (folder / "objects").iterdir() if p.suffix not in (".o", ".so")]
        assert made == [], "half of something"


def _finished(folder: Path) -> int:
    try:
        return sum(len([t for t in s.get_trials() if t.state.is_finished()]) for s in stored(folder))
    except Exception:  # the file is just being made
        return 0


def test_the_measuring_process_ends_with_its_meter(build: space.Build, subject: space.Subject) -> None:
    with Meter(build.folder, subject.pass_name, "f32", "sse41", [WORKLOAD], threads=1) as meter:
        pid = meter._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert measure.LEAST_ROUNDS > 1


def test_the_report_is_one_page(host_subject: space.Subject, workshop: Workshop, tmp_path: Path) -> None:
    page.write(tmp_path, tmp_path / "report.html")
    assert "Nothing has been measured" in (tmp_path / "report.html").read_text()

    search = search_of(host_subject, workshop, tmp_path)
    for number in range(6):
        trial = search.study.ask()
        values = {name: steps[trial.suggest_int(name, 0, len(steps) - 1)] for name, steps in search.steps.items()}
        trial.set_user_attr("values", values)
        if number == 3:
            trial.set_user_attr("rejected", "wrong")
            trial.set_user_attr("why", "2 < 1 & so on")
            search.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        trial.set_user_attr("ratios", {WORKLOAD: 1 - number / 10})
        trial.set_user_attr("won", number == 5)
        search.study.tell(trial, -number / 10)
    search.study.set_user_attr("final", {WORKLOAD: [2.0, 1.0]})
    search.study.set_user_attr("autoscheduler Adams2019", {WORKLOAD: [4.0, 12.0]})
    search.study.set_user_attr("autoscheduler Li2018", "compile: it gave up")
    page.write(tmp_path, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "http" not in text, "one file, nothing from elsewhere"
    xml.etree.ElementTree.fromstring(text.replace("<!DOCTYPE html>", "").replace('<meta charset="utf-8">', ""))
    assert "2.000x" in text and "2 &lt; 1 &amp; so on" in text and "it gave up" in text
    for shown in ("1.00  2 ms", "0.50  1 ms", "3.00  6 ms"):
        assert shown in text, "an autoscheduler is set against the default of its own run"
    assert f"{host_subject.row}.task_samples" in text


@pytest.mark.parametrize(
    "passes, workload",
    [
        ("msda_(forward|backward_.*)", "rfdetr_nano"),
        ("da_forward", "da_example"),
        ("gka_(forward|backward_.*)", "mapping_decoder"),
    ],
)
def test_an_autoscheduler_computes_the_same(
    passes: str, workload: str, build: space.Build, workshop: Workshop, tmp_path: Path
) -> None:
    import native

    bench = native.BenchLibrary(BUILD / "libdeformkit_bench.so")
    subjects = space.subjects(build, bench.passes, f"^{passes}_f32_sse41$")
    assert len(subjects) == (2 if "backward" in passes else 1)
    for subject in subjects:
        search = Search(build, subject, workshop, tmp_path, settings(workloads=[workload]), subject.standard())
        times = search.autoscheduled(build.autoscheduler("mullapudi2016"))  # else Rejected
        assert list(times) == [workload]
        for variant in subject.variants:
            made = workshop.kernel(variant, {}, "Mullapudi2016")
            assert made.read_bytes() != (BUILD / f"{variant.name}.o").read_bytes(), "the schedule by hand was used"


def test_an_autoscheduler_has_to_be_known(build: space.Build) -> None:
    with pytest.raises(ValueError, match="Adams2019"):
        build.autoscheduler("nobody")
