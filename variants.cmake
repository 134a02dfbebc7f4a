# The only list of targets and variants. CMake, the dispatch table, the tests and the benchmarks derive from it.
# A variant's name, symbol and files are <operator>_<pass>_<type>_<target>, such as msda_forward_f32_avx512.

# Targets: what Halide compiles for, the float32 lanes of a vector register, what the CPU must have at run time, and for a GPU
# Halide's name of its interface.
deformkit_target(avx512 HALIDE x86-64-linux-sse41-avx-f16c-fma-avx2-avx512-avx512_skylake-large_buffers LANES 16
                 CPU_FEATURES avx512f avx512cd avx512bw avx512dq avx512vl avx2 fma f16c)
deformkit_target(avx2 HALIDE x86-64-linux-sse41-avx-f16c-fma-avx2-large_buffers LANES 8 CPU_FEATURES avx2 fma f16c)
deformkit_target(sse41 HALIDE x86-64-linux-sse41-large_buffers LANES 4 CPU_FEATURES sse4.1)
deformkit_target(opencl HALIDE x86-64-linux-sse41-opencl LANES 4 CPU_FEATURES sse4.1 GPU opencl)

# Variants: operator, pass, storage type, targets, best first. Dispatch takes the first target that this machine supports; GPU
# targets are taken only when asked for, since the tensors are in host memory.
deformkit_variants(msda forward f32 TARGETS avx512 avx2 sse41 opencl)
deformkit_variants(msda forward f16 TARGETS avx512 avx2 sse41)
deformkit_variants(msda forward bf16 TARGETS avx512 avx2 sse41)
deformkit_variants(msda forward f64 TARGETS avx512 avx2 sse41)
# The same operator in another traversal of the same data: the runtime runs it in place of `forward` of the same target where that
# pays. No row of its own: chosen and named together with the row that it stands in for.
deformkit_variants(msda forward_head_major f32 TARGETS avx512 avx2 sse41 COMPANION)
deformkit_variants(msda forward_head_major f16 TARGETS avx512 avx2 sse41 COMPANION)
deformkit_variants(msda forward_head_major bf16 TARGETS avx512 avx2 sse41 COMPANION)
# What it reads of these types: value in float32.
deformkit_variants(rows widen f16 TARGETS avx512 avx2 sse41 COMPANION)
deformkit_variants(rows widen bf16 TARGETS avx512 avx2 sse41 COMPANION)

# Backward: what samples get, what value gets, and the passes over rows of channels that go with them.
foreach (type f32 f16 bf16 f64)
    deformkit_variants(msda backward_samples ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(msda backward_value ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(rows magnitude ${type} TARGETS avx512 avx2 sse41)
endforeach ()
# Sums of float32 in the type of the gradient.
deformkit_variants(rows narrow f16 TARGETS avx512 avx2 sse41)
deformkit_variants(rows narrow bf16 TARGETS avx512 avx2 sse41)

# Deformable aggregation and geometric kernel attention.
foreach (type f32 f16 bf16 f64)
    deformkit_variants(da forward ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(da backward_samples ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(da backward_value ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(gka forward ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(gka backward_samples ${type} TARGETS avx512 avx2 sse41)
    deformkit_variants(gka backward_value ${type} TARGETS avx512 avx2 sse41)
endforeach ()
