"""A search of one minute."""

from __future__ import annotations

from pathlib import Path

from places import require_tuner

require_tuner()

import space  # noqa: E402
from candidates import Workshop  # noqa: E402
from check import require_right  # noqa: E402
from search import Search, Settings, geometric_mean  # noqa: E402


def test_a_minute_finds_nothing_slower_than_the_defaults(
    build: space.Build, subject: space.Subject, workshop: Workshop, tmp_path: Path
) -> None:
    settings = Settings(["mapping_decoder"], threads=1, minutes=1, seconds=0.05)
    search = Search(build, subject, workshop, tmp_path, settings, subject.standard())
    noise = search.run(lambda progress: None)
    values, _ = search.best()
    found, standard = search.runnable(values), search.runnable(subject.standard())
    require_right(build, subject, found, tmp_path, thorough=True)
    with search.meter() as meter:
        times = search.times(meter, standard, found, scale=10)
    assert geometric_mean([found / standard for standard, found in times.values()]) < max(noise, 1.05)
    assert len(search.study.trials) > 5


def test_a_detuned_variant_comes_back(subject: space.Subject, workshop: Workshop, tmp_path: Path) -> None:
    """Tiny tasks cost more than half of the time with one thread."""
    start = {**subject.standard(), f"{subject.row}.task_samples": 1, f"{subject.row}.tasks_per_thread": 64}
    settings = Settings(["mapping_decoder"], threads=1, minutes=1, seconds=0.05)
    search = Search(workshop.build, subject, workshop, tmp_path, settings, start)
    search.run(lambda progress: None)
    values, _ = search.best()
    with search.meter() as meter:
        times = search.times(meter, search.runnable(subject.standard()), search.runnable(values), scale=10)
    assert geometric_mean([found / standard for standard, found in times.values()]) < 1.25
