# Turns the rows of variants.cmake into compiled kernels and rows of the dispatch table.
#
# After include(variants.cmake): DEFORMKIT_KERNELS lists the kernel libraries, DEFORMKIT_KERNEL_HEADERS their headers, and the
# target deformkit_variants carries an include directory with
#   deformkit_variants.inc    rows DEFORMKIT_VARIANT(operator, pass, type, target), best first
#   deformkit_companions.inc  the same for kernels that the runtime runs in place of a row's where that pays
#   deformkit_targets.inc     rows DEFORMKIT_TARGET(target, does this CPU support it, device interface or nullptr)

set(DEFORMKIT_TYPE_f32 float32)
set(DEFORMKIT_TYPE_f16 float16)
set(DEFORMKIT_TYPE_bf16 bfloat16)
set(DEFORMKIT_TYPE_f64 float64)

# Features that runtime/cpu_features.h tells of, since not every compiler does.
set(DEFORMKIT_UNNAMED_CPU_FEATURES f16c)

# What to leave out, to build sooner: a library for one machine, or an experiment with one type.
set(DEFORMKIT_TARGETS "" CACHE STRING "Targets to build, such as avx2;sse41; empty: all")
set(DEFORMKIT_TYPES "" CACHE STRING "Storage types to build, such as f32;f16; empty: all")

set(DEFORMKIT_KERNELS "")
set(DEFORMKIT_KERNEL_HEADERS "")
set(DEFORMKIT_VARIANT_ROWS "")
set(DEFORMKIT_COMPANION_ROWS "")
set(DEFORMKIT_TARGET_ROWS "")
set(DEFORMKIT_DEVICE_INTERFACES "")
set(DEFORMKIT_VARIANT_HEADERS "")
set(DEFORMKIT_HALIDE_RUNTIME_TARGET x86-64-linux-opencl)

function(deformkit_target name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "HALIDE;LANES;GPU" "CPU_FEATURES")
    set(supported true)
    foreach (feature IN LISTS ARG_CPU_FEATURES)
        if (feature IN_LIST DEFORMKIT_UNNAMED_CPU_FEATURES)
            string(APPEND supported " && deformkit::cpu_supports_${feature}()")
        else ()
            string(APPEND supported " && __builtin_cpu_supports(\"${feature}\")")
        endif ()
    endforeach ()
    set(device nullptr)
    if (ARG_GPU)
        set(device halide_${ARG_GPU}_device_interface)
        string(APPEND DEFORMKIT_DEVICE_INTERFACES "extern \"C\" const halide_device_interface_t *${device}();\n")
        set(DEFORMKIT_DEVICE_INTERFACES ${DEFORMKIT_DEVICE_INTERFACES} PARENT_SCOPE)
    endif ()
    string(APPEND DEFORMKIT_TARGET_ROWS "DEFORMKIT_TARGET(${name}, ${supported}, ${device})\n")
    set(DEFORMKIT_TARGET_ROWS ${DEFORMKIT_TARGET_ROWS} PARENT_SCOPE)
    set(DEFORMKIT_TARGET_${name}_HALIDE ${ARG_HALIDE} PARENT_SCOPE)
    set(DEFORMKIT_TARGET_${name}_LANES ${ARG_LANES} PARENT_SCOPE)
endfunction()

function(deformkit_variants operator pass type)
    cmake_parse_arguments(PARSE_ARGV 3 ARG "COMPANION" "" "TARGETS")
    if (ARG_COMPANION)
        set(rows DEFORMKIT_COMPANION_ROWS)
    else ()
        set(rows DEFORMKIT_VARIANT_ROWS)
    endif ()
    if (DEFORMKIT_TYPES AND NOT type IN_LIST DEFORMKIT_TYPES)
        return()
    endif ()
    foreach (target IN LISTS ARG_TARGETS)
        if (DEFORMKIT_TARGETS AND NOT target IN_LIST DEFORMKIT_TARGETS)
            continue()
        endif ()
        set(variant ${operator}_${pass}_${type}_${target})

        # What tuning chose, one key=value a line; lines that start with # say on which machine and when.
        set(tuned ${PROJECT_SOURCE_DIR}/schedules/tuned/${variant}.params)
        set(params "")
        if (EXISTS ${tuned})
            file(STRINGS ${tuned} params REGEX "^[^#]+=")
            set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tuned})
        endif ()

        add_halide_library(
            ${variant} FROM deformkit_${operator}_generators
            GENERATOR ${operator}_${pass}
            TARGETS ${DEFORMKIT_TARGET_${target}_HALIDE}
            USE_RUNTIME deformkit_halide_runtime
            PARAMS storage_type=${DEFORMKIT_TYPE_${type}} lanes=${DEFORMKIT_TARGET_${target}_LANES} ${params})
        list(APPEND DEFORMKIT_KERNELS ${variant})
        string(APPEND ${rows} "DEFORMKIT_VARIANT(${operator}, ${pass}, ${type}, ${target})\n")
        string(APPEND DEFORMKIT_VARIANT_HEADERS "#include \"${variant}.h\"\n")
        list(APPEND DEFORMKIT_KERNEL_HEADERS ${CMAKE_CURRENT_BINARY_DIR}/${variant}.h)
    endforeach ()
    set(DEFORMKIT_KERNELS ${DEFORMKIT_KERNELS} PARENT_SCOPE)
    set(DEFORMKIT_KERNEL_HEADERS ${DEFORMKIT_KERNEL_HEADERS} PARENT_SCOPE)
    set(${rows} ${${rows}} PARENT_SCOPE)
    set(DEFORMKIT_VARIANT_HEADERS ${DEFORMKIT_VARIANT_HEADERS} PARENT_SCOPE)
endfunction()

function(deformkit_write_variant_table)
    set(dir ${PROJECT_BINARY_DIR}/generated)
    file(CONFIGURE OUTPUT ${dir}/deformkit_variants.inc CONTENT "${DEFORMKIT_VARIANT_ROWS}" @ONLY)
    file(CONFIGURE OUTPUT ${dir}/deformkit_companions.inc CONTENT "${DEFORMKIT_COMPANION_ROWS}" @ONLY)
    file(CONFIGURE OUTPUT ${dir}/deformkit_targets.inc CONTENT "${DEFORMKIT_TARGET_ROWS}" @ONLY)
    file(CONFIGURE OUTPUT ${dir}/deformkit_variants.h CONTENT "#pragma once\n${DEFORMKIT_VARIANT_HEADERS}${DEFORMKIT_DEVICE_INTERFACES}" @ONLY)
    add_library(deformkit_variants INTERFACE)
    target_include_directories(deformkit_variants INTERFACE ${dir})
endfunction()
