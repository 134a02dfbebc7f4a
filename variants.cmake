# The only list of types, targets and variants. CMake, the dispatch table, tests, benchmarks and Python derive from it.
# A variant's name, symbol and files are <operator>_<pass>_<type>_<target>, such as msda_forward_f32_avx512.

# Storage types: Halide's name, which is NumPy's and PyTorch's as well; DLPack's; the type that is computed in; bits of exponent
# and mantissa. The first is what benchmarks compare the others with.
deformkit_type(f32 HALIDE float32 DLPACK kDLFloat BITS 32 ARITHMETIC f32 EXPONENT 8 MANTISSA 23)
deformkit_type(f16 HALIDE float16 DLPACK kDLFloat BITS 16 ARITHMETIC f32 EXPONENT 5 MANTISSA 10)
deformkit_type(bf16 HALIDE bfloat16 DLPACK kDLBfloat BITS 16 ARITHMETIC f32 EXPONENT 8 MANTISSA 7)
deformkit_type(f64 HALIDE float64 DLPACK kDLFloat BITS 64 ARITHMETIC f64 EXPONENT 11 MANTISSA 52)
set(types f32 f16 bf16 f64)
set(types_of_16_bits f16 bf16)
# What else rows may be for.
deformkit_integer(i8 HALIDE int8 BITS 8)
deformkit_integer(i16 HALIDE int16 BITS 16)
deformkit_integer(i32 HALIDE int32 BITS 32)
deformkit_integer(i64 HALIDE int64 BITS 64)

# Architectures: processors as CMake names them, Halide's name, and how C++ asks the CPU for a feature, @.
deformkit_arch(x86 PROCESSORS x86_64 AMD64 HALIDE x86-64-linux SUPPORTS "__builtin_cpu_supports(\"@\")"
               INCLUDE runtime/dispatch/cpu_x86.h)
# Features that are asked for otherwise: not every compiler's __builtin_cpu_supports has a name for them.
deformkit_feature(f16c SUPPORTS "deformkit::cpu_supports_f16c()")

# Targets: what Halide compiles for, the float32 lanes of a vector register, what the CPU must have at run time, and for a GPU
# Halide's name of its interface and DLPack's of the device.
deformkit_target(avx512 ARCH x86 HALIDE sse41-avx-f16c-fma-avx2-avx512-avx512_skylake-large_buffers LANES 16
                 CPU_FEATURES avx512f avx512cd avx512bw avx512dq avx512vl avx2 fma f16c)
deformkit_target(avx2 ARCH x86 HALIDE sse41-avx-f16c-fma-avx2-large_buffers LANES 8 CPU_FEATURES avx2 fma f16c)
deformkit_target(sse41 ARCH x86 HALIDE sse41-large_buffers LANES 4 CPU_FEATURES sse4.1)
deformkit_target(cuda ARCH x86 HALIDE sse41-cuda-cuda_capability_80-user_context-no_bounds_query LANES 4 CPU_FEATURES sse4.1 GPU cuda
                 DLPACK kDLCUDA)
deformkit_target(opencl ARCH x86 HALIDE sse41-opencl-user_context-no_bounds_query LANES 4 CPU_FEATURES sse4.1 GPU opencl
                 DLPACK kDLOpenCL)
set(cpus avx512 avx2 sse41)
set(gpus cuda opencl)

# Variants: operator, pass, storage types, targets, best first. Dispatch takes the first target that this machine supports; those
# of GPUs serve tensors in their memory, and tensors in host memory only when asked for.
deformkit_variants(msda forward TYPES ${types} TARGETS ${cpus})
# The same operator in another traversal of the same data: runs in place of `forward` of the same type and target where that pays.
deformkit_variants(msda forward_head_major TYPES f32 f16 bf16 TARGETS ${cpus} IN_PLACE_OF forward)
# Backward: what samples get, and what value gets.
deformkit_variants(msda backward_samples TYPES ${types} TARGETS ${cpus})
deformkit_variants(msda backward_value TYPES ${types} TARGETS ${cpus})

# Deformable aggregation and geometric kernel attention.
foreach (operator da gka)
    foreach (pass forward backward_samples backward_value)
        deformkit_variants(${operator} ${pass} TYPES ${types} TARGETS ${cpus})
    endforeach ()
endforeach ()

# Locations in cells that are not float32 or int32.
deformkit_variants(gka cells TYPES f16 bf16 f64 i8 i16 i64 TARGETS ${cpus})

# To the type of arithmetic, and from there, rounded: for passes that read or add up a tensor in that type.
deformkit_variants(convert widen TYPES ${types_of_16_bits} TARGETS ${cpus})
deformkit_variants(convert narrow TYPES ${types_of_16_bits} TARGETS ${cpus})

# GPUs: behind all others, which small calls on a CPU look through.
foreach (operator msda da gka)
    foreach (pass forward backward_samples backward_value)
        deformkit_variants(${operator} ${pass} TYPES f32 ${types_of_16_bits} TARGETS ${gpus})
    endforeach ()
    # Without atomic additions: the same bits from run to run, for more time.
    deformkit_variants(${operator} backward_value_in_order TYPES f32 ${types_of_16_bits} TARGETS ${gpus} IN_PLACE_OF backward_value)
endforeach ()
# What samples get of a location, added up.
deformkit_variants(da backward_locations TYPES f32 ${types_of_16_bits} TARGETS ${gpus})
deformkit_variants(gka cells TYPES f16 bf16 f64 i8 i16 i64 TARGETS ${gpus})
deformkit_variants(convert narrow TYPES ${types_of_16_bits} TARGETS ${gpus})
# Between layouts in a GPU's memory, for all types of that size.
deformkit_variants(copy strided TYPES i8 i16 i32 i64 TARGETS ${gpus})
