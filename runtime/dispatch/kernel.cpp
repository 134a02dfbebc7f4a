#include "runtime/dispatch/kernel.h"

#include <string>

#include "runtime/interface/error.h"
#include "runtime/system/log.h"
#include "runtime/system/parallel.h"

namespace deformkit {

namespace {

deformkit_status status_of(int halide_error) {
    switch (halide_error) {
        case halide_error_code_out_of_memory:
            return DEFORMKIT_OUT_OF_MEMORY;
        case halide_error_code_buffer_allocation_too_large:
        case halide_error_code_buffer_extents_too_large:
            return DEFORMKIT_NO_VARIANT;
        case halide_error_code_no_device_interface:
        case halide_error_code_device_interface_no_device:
        case halide_error_code_device_malloc_failed:
        case halide_error_code_device_free_failed:
        case halide_error_code_device_sync_failed:
        case halide_error_code_device_run_failed:
        case halide_error_code_device_buffer_copy_failed:
        case halide_error_code_copy_to_host_failed:
        case halide_error_code_copy_to_device_failed:
        case halide_error_code_gpu_device_error:
        case halide_error_code_symbol_not_found:
        case halide_error_code_generic_error:
            return DEFORMKIT_DEVICE_FAILURE;
        default:
            return DEFORMKIT_INTERNAL_ERROR;
    }
}

}  // namespace

void run_kernel(const Variant &variant, void **args) {
    log("%s: runs", variant.name);
    const HalideErrors errors;
    if (const int result = variant.run(args); result != 0) {
        const deformkit_status status = variant.target->is_gpu() || status_of(result) != DEFORMKIT_DEVICE_FAILURE
                                            ? status_of(result)
                                            : DEFORMKIT_INTERNAL_ERROR;
        throw Failure(status, std::string(variant.name) + ": " + errors.text());
    }
}

}  // namespace deformkit
