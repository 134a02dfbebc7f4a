"""ctypes on libdeformkit.so and libdeformkit_bench.so: what run_bench.py times, and the tables that it works through."""

import ctypes
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ALIGNMENT = 64


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
_DTYPE_CODES = {"i": 0, "f": 2}


def _dl_tensor(array):
    """A dense view; the array and the shape must outlive it, so it holds both."""
    assert array.flags.c_contiguous
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    tensor = _DLTensor(
        data=array.ctypes.data,
        device_type=_CPU,
        ndim=array.ndim,
        dtype_code=_DTYPE_CODES[array.dtype.kind],
        dtype_bits=array.dtype.itemsize * 8,
        dtype_lanes=1,
        shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
    )
    tensor.keep_alive = (array, shape)
    return tensor


def aligned_empty(shape, dtype):
    """An uninitialised array that starts on a cache line, as PyTorch's own do; NumPy promises 16 bytes only."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Workload:
    index: int
    name: str
    batch: int
    queries: int
    heads: int
    channels: int
    keys: int
    points: int
    levels: tuple
    hand_written: bool

    @property
    def samples(self):
        return self.batch * self.queries * self.heads * len(self.levels) * self.points


@dataclass(frozen=True)
class Variant:
    name: str
    target: str
    on_device: bool


class Problem:
    """The tensors of a workload, the same memory for all competitors."""

    def __init__(self, bench_library, w):
        levels = len(w.levels)
        self.workload = w
        self.value = aligned_empty((w.batch, w.keys, w.heads, w.channels), np.float32)
        self.spatial_shapes = aligned_empty((levels, 2), np.int64)
        self.level_start_index = aligned_empty((levels,), np.int64)
        self.sampling_locations = aligned_empty((w.batch, w.queries, w.heads, levels, w.points, 2), np.float32)
        self.attention_weights = aligned_empty((w.batch, w.queries, w.heads, levels, w.points), np.float32)
        self.output = aligned_empty((w.batch, w.queries, w.heads * w.channels), np.float32)
        bench_library.fill(w, self.inputs)

    @property
    def inputs(self):
        return (
            self.value,
            self.spatial_shapes,
            self.level_start_index,
            self.sampling_locations,
            self.attention_weights,
        )

    @property
    def bytes(self):
        """Five inputs and the output, each once."""
        return sum(array.nbytes for array in (*self.inputs, self.output))

    def tolerance(self):
        """What rounding may do to an output.

        Locations round by up to an epsilon of the map's size in cells, and a cell's worth of location changes a sample by up to
        twice the largest value; the sum over the samples adds its own roundings.
        """
        epsilon = float(np.finfo(np.float32).eps)
        cells = max(max(level) for level in self.workload.levels)
        terms = self.attention_weights.shape[-2] * self.attention_weights.shape[-1]
        weights = float(np.abs(self.attention_weights).sum(axis=(-2, -1)).max())
        return epsilon * (4 * cells + terms) * float(np.abs(self.value).max()) * weights


class Deformkit:
    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        for name in ("last_error", "version", "last_variant"):
            getattr(self._library, f"deformkit_{name}").restype = ctypes.c_char_p
        self._library.deformkit_set_target.argtypes = [ctypes.c_char_p]
        self._library.deformkit_msda_forward.argtypes = [ctypes.POINTER(_DLTensor)] * 6

    def version(self):
        return self._library.deformkit_version().decode()

    def last_error(self):
        return self._library.deformkit_last_error().decode()

    def last_variant(self):
        return self._library.deformkit_last_variant().decode()

    def set_target(self, target):
        """None: the library chooses."""
        self._check(self._library.deformkit_set_target(target.encode() if target else None))

    def set_num_threads(self, count):
        self._check(self._library.deformkit_set_num_threads(count))

    def msda_forward(self, problem):
        """The call with everything but the C function's own work done beforehand; raises RuntimeError."""
        function = self._library.deformkit_msda_forward
        tensors = [_dl_tensor(array) for array in (*problem.inputs, problem.output)]
        references = [ctypes.byref(tensor) for tensor in tensors]

        def call(keep_alive=tensors):
            if function(*references):
                raise RuntimeError(self.last_error())
            return problem.output

        return call

    def _check(self, status):
        if status:
            raise RuntimeError(self.last_error())


class BenchLibrary:
    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._library.deformkit_bench_tables.restype = ctypes.c_char_p
        self._library.deformkit_bench_fill.restype = None
        self._library.deformkit_bench_fill.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 5
        self._library.deformkit_bench_hand_msda.restype = None
        self._library.deformkit_bench_hand_msda.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 6 + [ctypes.c_int]

        tables = json.loads(self._library.deformkit_bench_tables())
        self.variants = [Variant(**row) for row in tables["variants"]]
        self.workloads = [
            Workload(index=i, **{**row, "levels": tuple(tuple(level) for level in row["levels"])})
            for i, row in enumerate(tables["workloads"])
        ]

    def fill(self, workload, inputs):
        self._library.deformkit_bench_fill(workload.index, *(array.ctypes.data for array in inputs))

    def hand_msda(self, problem, threads):
        function = self._library.deformkit_bench_hand_msda
        pointers = [array.ctypes.data for array in (*problem.inputs, problem.output)]

        def call():
            function(problem.workload.index, *pointers, threads)
            return problem.output

        return call


def load(build_dir):
    build_dir = Path(build_dir)
    paths = build_dir / "libdeformkit.so", build_dir / "libdeformkit_bench.so"
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there: build with -DDEFORMKIT_BUILD_BENCH=ON first, or give --build-dir")
    return Deformkit(paths[0]), BenchLibrary(paths[1])
