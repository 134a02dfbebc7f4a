"""ctypes on libdeformkit.so and libdeformkit_bench.so: what run_bench.py times, and the tables that it works through.

Nothing here knows of an operator: what a pass is called with is in the tables (operators.h).
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np

ALIGNMENT = 64

Array = np.ndarray[Any, np.dtype[Any]]
Outputs = dict[str, Array]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU = 1
_INT = 0


@dataclass(frozen=True)
class StorageType:
    """What NumPy has no type for, bfloat16, is held as the integers of its bits."""

    name: str
    long_name: str
    dlpack_code: int
    bits: int
    mantissa_bits: int

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.long_name if hasattr(np, self.long_name) else f"uint{self.bits}")

    @property
    def epsilon(self) -> float:
        """From 1 to the next number."""
        return 2.0**-self.mantissa_bits

    def decode(self, array: Array) -> Array:
        """In float32, or in float64 for float64."""
        if array.dtype.kind == "u":
            return (array.astype(np.uint32) << (32 - self.bits)).view(np.float32)
        return array if array.dtype.itemsize >= 4 else array.astype(np.float32)


def _dl_tensor(array: Array, dlpack_code: int) -> _DLTensor:
    """A dense view; the array and the shape must outlive it, so it holds both."""
    assert array.flags.c_contiguous
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    tensor = _DLTensor(
        data=array.ctypes.data,
        device_type=_CPU,
        ndim=array.ndim,
        dtype_code=dlpack_code,
        dtype_bits=array.dtype.itemsize * 8,
        dtype_lanes=1,
        shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
    )
    tensor.keep_alive = (array, shape)
    return tensor


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array that starts on a cache line, as PyTorch's own do; NumPy promises 16 bytes only."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Argument:
    name: str
    kind: str  # "input", "index" or "output"
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    index: int
    name: str
    samples: int
    hand_written: bool
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Variant:
    name: str
    type: str
    target: str
    on_device: bool
    kernels: list[str]  # that a call on it may run: its own, and those that run in its place


@dataclass(frozen=True)
class Pass:
    index: int
    name: str  # such as "msda_forward"
    title: str
    function: str
    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]


def _pass_of(index: int, row: dict[str, Any]) -> Pass:
    workloads = []
    for i, w in enumerate(row["workloads"]):
        arguments = tuple(Argument(**{**a, "shape": tuple(a["shape"])}) for a in w["arguments"])
        workloads.append(Workload(**{**w, "index": i, "arguments": arguments}))
    return Pass(
        **{
            **row,
            "index": index,
            "variants": tuple(Variant(**v) for v in row["variants"]),
            "workloads": tuple(workloads),
        }
    )


class Problem:
    """The tensors of a workload in a storage type: arrays by the arguments' names, the same memory for all competitors."""

    def __init__(self, bench_library: BenchLibrary, pass_: Pass, workload: Workload, storage_type: str = "f32") -> None:
        self._allocate(bench_library.types, pass_, workload, storage_type)
        bench_library.fill(self)

    def _allocate(self, types: dict[str, StorageType], pass_: Pass, workload: Workload, storage_type: str) -> None:
        self._types, self.pass_, self.workload, self.type = types, pass_, workload, types[storage_type]
        self.arrays = {
            a.name: aligned_empty(a.shape, np.int64 if a.kind == "index" else self.type.dtype) for a in workload.arguments
        }
        self.forget_outputs()

    def in_float32(self) -> Problem:
        """A copy: what the inputs are after rounding to this type."""
        copy = object.__new__(Problem)
        copy._allocate(self._types, self.pass_, self.workload, "f32")
        for name in self._names("input"):
            np.copyto(copy[name], self.type.decode(self[name]), casting="same_kind")
        for name in self._names("index"):
            np.copyto(copy[name], self[name])
        return copy

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def _names(self, *kinds: str) -> list[str]:
        return [a.name for a in self.workload.arguments if a.kind in kinds]

    @property
    def inputs(self) -> list[Array]:
        return [self.arrays[name] for name in self._names("input", "index")]

    @property
    def outputs(self) -> Outputs:
        return {name: self.arrays[name] for name in self._names("output")}

    @property
    def pointers(self) -> list[int]:
        return [array.ctypes.data for array in self.arrays.values()]

    @property
    def dl_tensors(self) -> list[_DLTensor]:
        kinds = {a.name: a.kind for a in self.workload.arguments}
        return [
            _dl_tensor(array, _INT if kinds[name] == "index" else self.type.dlpack_code) for name, array in self.arrays.items()
        ]

    @property
    def bytes(self) -> int:
        """Of all arguments, each once."""
        return sum(array.nbytes for array in self.arrays.values())

    def forget_outputs(self) -> None:
        """NaN in every type: what a competitor leaves unwritten shows."""
        for array in self.outputs.values():
            array.view(np.uint8).fill(0xFF)


class Deformkit:
    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        for name in ("last_error", "version", "last_variant"):
            getattr(self._library, f"deformkit_{name}").restype = ctypes.c_char_p
        self._library.deformkit_set_target.argtypes = [ctypes.c_char_p]
        self._library.deformkit_set_knob.argtypes = [ctypes.c_char_p, ctypes.c_int64]

    def version(self) -> str:
        return self._library.deformkit_version().decode()

    def last_error(self) -> str:
        return self._library.deformkit_last_error().decode()

    def last_variant(self) -> str:
        return self._library.deformkit_last_variant().decode()

    def set_target(self, target: str | None) -> None:
        """None: the library chooses."""
        self._check(self._library.deformkit_set_target(target.encode() if target else None))

    def set_num_threads(self, count: int) -> None:
        self._check(self._library.deformkit_set_num_threads(count))

    def set_knob(self, name: str, value: int) -> None:
        self._check(self._library.deformkit_set_knob(name.encode(), value))

    def call(self, problem: Problem) -> Callable[[], Outputs]:
        """The call with everything but the C function's own work done beforehand; raises RuntimeError."""
        function = getattr(self._library, problem.pass_.function)
        tensors = problem.dl_tensors
        references = [ctypes.byref(tensor) for tensor in tensors]

        def call(keep_alive: Any = tensors) -> Outputs:
            if function(*references):
                raise RuntimeError(self.last_error())
            return problem.outputs

        return call

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.last_error())


class BenchLibrary:
    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.deformkit_bench_tables.restype = ctypes.c_char_p
        self._library.deformkit_bench_fill.restype = None
        self._library.deformkit_bench_hand.restype = None
        tables = json.loads(self._library.deformkit_bench_tables())
        self.types = {row["name"]: StorageType(**row) for row in tables["types"]}
        self.passes = [_pass_of(i, row) for i, row in enumerate(tables["passes"])]

    @staticmethod
    def _place(problem: Problem) -> Any:
        """The arguments that say which workload, and where its arrays are."""
        pointers = problem.pointers
        return problem.pass_.index, problem.workload.index, (ctypes.c_void_p * len(pointers))(*pointers)

    def fill(self, problem: Problem) -> None:
        pass_, workload, pointers = self._place(problem)
        self._library.deformkit_bench_fill(pass_, workload, problem.type.name.encode(), pointers)

    def hand(self, problem: Problem, threads: int) -> Callable[[], Outputs]:
        function = self._library.deformkit_bench_hand
        place = self._place(problem)

        def call() -> Outputs:
            function(*place, threads)
            return problem.outputs

        return call


def load(build_dir: Path) -> tuple[Deformkit, BenchLibrary]:
    build_dir = Path(build_dir)
    paths = build_dir / "libdeformkit.so", build_dir / "libdeformkit_bench.so"
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there: build with -DDEFORMKIT_BUILD_BENCH=ON first, or give --build-dir")
    return Deformkit(paths[0]), BenchLibrary(paths[1])
