"""What there is to tune: the build's own description of its variants and knobs, tuner.json, and the files that set them."""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Values = dict[str, int]  # by <variant>.<knob>


def _load_shared() -> Any:
    """Of the Python package, which need not be there as a whole."""
    path = Path(__file__).resolve().parents[2] / "python/deformkit/_tuning.py"
    spec = importlib.util.spec_from_file_location("deformkit_tuning", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_shared = _load_shared()
write_atomically = _shared.write_atomically


@dataclass(frozen=True)
class Knob:
    name: str
    kind: str  # "schedule" or "host"
    standard: int
    lowest: int
    highest: int
    meaning: str

    def steps(self) -> list[int]:
        """The values that are tried."""
        return _shared.steps(self.lowest, self.highest, self.standard)


@dataclass(frozen=True)
class Variant:
    name: str
    operator: str
    pass_: str
    type: str
    target: str
    serves: str
    storage_type: str
    halide_target: str
    lanes: str
    built_with: str  # schedule knobs of the build's own kernel: name=value, separated by spaces
    knobs: tuple[Knob, ...]

    def runs_in(self, pass_name: str) -> bool:
        """Whether a call of this pass of the benchmarks runs it: "msda_backward" runs msda_backward_samples."""
        operator, _, name = pass_name.partition("_")
        return self.operator == operator and (self.serves == name or self.pass_.startswith(f"{name}_"))

    def params(self, values: Mapping[str, int]) -> dict[str, int]:
        """Of its schedule knobs, those that differ from their defaults: what its generator has to be told."""
        own = {k.name: values.get(f"{self.name}.{k.name}", k.standard) for k in self.knobs if k.kind == "schedule"}
        return {k.name: own[k.name] for k in self.knobs if k.name in own and own[k.name] != k.standard}


@dataclass(frozen=True)
class Build:
    folder: Path
    source: Path
    compiler: str
    halide_runtime: Path
    version: str
    objects: tuple[Path, ...]
    generators: dict[str, Path]
    autoschedulers: dict[str, Path]
    variants: dict[str, Variant]

    def autoscheduler(self, name: str) -> str:
        """Halide's own spelling."""
        for known in self.autoschedulers:
            if known.lower() == name.lower():
                return known
        raise ValueError(f"expected an autoscheduler, one of {', '.join(self.autoschedulers)}, got '{name}'")


def read_build(folder: Path) -> Build:
    row = json.loads((folder / "tuner.json").read_text())
    knobs = {name: tuple(Knob(**k) for k in rows) for name, rows in row["knobs"].items()}
    variants = {}
    for v in row["variants"]:
        pass_ = v.pop("pass")
        name = f"{v['operator']}_{pass_}_{v['type']}_{v['target']}"
        variants[name] = Variant(name=name, pass_=pass_, knobs=knobs[f"{v['operator']}_{pass_}"], **v)
    return Build(
        folder=Path(row["build"]),
        source=Path(row["source"]),
        compiler=row["compiler"],
        halide_runtime=Path(row["halide_runtime"]),
        version=row["version"],
        objects=tuple(Path(o) for o in row["objects"]),
        generators={name: Path(p) for name, p in row["generators"].items()},
        autoschedulers={name: Path(p) for name, p in row["autoschedulers"].items()},
        variants=variants,
    )


@dataclass(frozen=True)
class Subject:
    """What is tuned together, since one call runs all of it: a pass as the benchmarks know it, for a type and a target."""

    pass_name: str  # such as "msda_forward"
    type: str
    target: str
    row: str  # the variant that calls are named by
    variants: tuple[Variant, ...]  # whose knobs are varied
    kernels: tuple[Variant, ...]  # of this type and target: what its library holds

    @property
    def name(self) -> str:
        return f"{self.pass_name}_{self.type}_{self.target}"

    @property
    def operator(self) -> str:
        return self.variants[0].operator

    def knobs(self) -> dict[str, Knob]:
        return {f"{v.name}.{k.name}": k for v in self.variants for k in v.knobs}

    def standard(self) -> Values:
        return {name: knob.standard for name, knob in self.knobs().items()}


def subjects(build: Build, passes: Sequence[Any], pattern: str) -> list[Subject]:
    """Those with a variant that `pattern` is found in; of these, only such variants' knobs are varied."""
    found = []
    measured = {v.name for v in build.variants.values() if any(v.runs_in(pass_.name) for pass_ in passes)}
    for pass_ in passes:
        for row in pass_.variants:
            if row.name not in build.variants:
                continue
            of_target = [v for v in build.variants.values() if v.target == row.target]
            # What no call is named by, such as conversions, may serve any type.
            kernels = tuple(v for v in of_target if v.type == row.type or v.name not in measured)
            own = [v for v in kernels if v.type == row.type and v.runs_in(pass_.name)]
            chosen = tuple(v for v in own if re.search(pattern, v.name))
            if chosen:
                found.append(Subject(pass_.name, row.type, row.target, row.name, chosen, kernels))
    return found


def read_params(folders: Iterable[Path], subject: Subject) -> Values:
    """Values of all knobs of a subject: of each variant's file in the first folder that has one, else its defaults."""
    values = subject.standard()
    knobs = subject.knobs()
    for variant in subject.variants:
        for folder in folders:
            path = folder / f"{variant.name}.params"
            if not path.exists():
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if not line or line.startswith("#"):
                    continue
                name, equals, text = line.partition("=")
                knob = knobs.get(f"{variant.name}.{name}")
                if not equals or knob is None or not re.fullmatch(r"\d+", text) or not knob.lowest <= int(text) <= knob.highest:
                    expected = f"expected a knob of {variant.name} and a number in its range"
                    raise ValueError(f"{path}:{number}: {expected}, got '{line}'")
                values[f"{variant.name}.{name}"] = int(text)
            break
    return values


@dataclass(frozen=True)
class Result:
    """What a search has found, and by how much."""

    values: Values
    threads: int
    noise: float  # of a ratio of times, 1 and above
    ratio: float  # of times in geometric mean, default over tuned
    milliseconds: dict[str, tuple[float, float]] = field(default_factory=dict)  # by workload: default, tuned


def write_params(folder: Path, subject: Subject, result: Result, machine: str) -> list[Path]:
    """A file for each variant that has other values than its defaults; a file that says otherwise goes."""
    written = []
    for variant in subject.variants:
        path = folder / f"{variant.name}.params"
        lines = [
            f"{k.name}={result.values[f'{variant.name}.{k.name}']}"
            for k in variant.knobs
            if result.values[f"{variant.name}.{k.name}"] != k.standard
        ]
        if not lines:
            path.unlink(missing_ok=True)
            continue
        threads = f"{result.threads} thread{'s' if result.threads > 1 else ''}"
        head = [
            f"Found by ./run tune on {machine}, {datetime.date.today().isoformat()}, {threads}.",
            f"{subject.pass_name} is {result.ratio:.3f} times as fast as with the defaults in geometric mean",
            f"(noise {result.noise:.3f}):",
            *(f"  {name}: {before:.3f} ms, {after:.3f} tuned" for name, (before, after) in result.milliseconds.items()),
        ]
        write_atomically(path, "".join(f"# {line}\n" for line in head) + "".join(f"{line}\n" for line in lines))
        written.append(path)
    return written


def cpu_model() -> str:
    """As /proc/cpuinfo calls it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def cpu_folder() -> str:
    """As a name of a folder: `./run` and deformkit_knobs_file() say the same."""
    return re.sub("[^a-z0-9]+", "-", cpu_model().lower()).strip("-") or "unknown"


def machine() -> str:
    return f"{os.cpu_count()}-core {cpu_model()}"
