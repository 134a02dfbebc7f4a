// PyTorch's stable C interface, as far as it is used here: torch/csrc/stable/c/shim.h and torch/csrc/inductor/aoti_torch/c/shim.h of
// PyTorch 2.10 and newer. Its functions are looked up in the PyTorch that the process has loaded. python/tests/test_deploy_torch.py
// compares these declarations with the headers of the PyTorch that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

struct AtenTensorOpaque;
struct StableListOpaque;
class TorchLibraryOpaque;

namespace deformkit::torch {

using Tensor = AtenTensorOpaque *;
using List = StableListOpaque *;
using Library = TorchLibraryOpaque *;

/// An argument or result: a number, or one of these pointers, in the first bytes.
using Value = uint64_t;
using Kernel = void (*)(Value *stack, uint64_t arguments, uint64_t results);

/// The version that these declarations are of.
constexpr uint64_t kVersion = uint64_t{2} << 56 | uint64_t{10} << 48;

/// SHIM(result, name, arguments). A result of type int32_t says whether a call failed, except that types and devices have numbers.
#define DEFORMKIT_TORCH_SHIMS(SHIM)                                                                                           \
    SHIM(int32_t, aoti_torch_library_init_fragment, (const char *, const char *, uint32_t, Library *))                        \
    SHIM(int32_t, aoti_torch_library_init_impl, (const char *, const char *, const char *, uint32_t, Library *))              \
    SHIM(int32_t, aoti_torch_library_def, (Library, const char *))                                                            \
    SHIM(int32_t, torch_library_impl, (Library, const char *, Kernel, uint64_t))                                              \
    SHIM(int32_t, aoti_torch_delete_tensor_object, (Tensor))                                                                  \
    SHIM(int32_t, aoti_torch_get_data_ptr, (Tensor, void **))                                                                 \
    SHIM(int32_t, aoti_torch_get_dim, (Tensor, int64_t *))                                                                    \
    SHIM(int32_t, aoti_torch_get_sizes, (Tensor, int64_t **))                                                                 \
    SHIM(int32_t, aoti_torch_get_strides, (Tensor, int64_t **))                                                               \
    SHIM(int32_t, aoti_torch_get_dtype, (Tensor, int32_t *))                                                                  \
    SHIM(int32_t, aoti_torch_empty_strided, (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, Tensor *)) \
    SHIM(int32_t, torch_new_list_reserve_size, (size_t, List *))                                                              \
    SHIM(int32_t, torch_list_size, (List, size_t *))                                                                          \
    SHIM(int32_t, torch_list_get_item, (List, size_t, Value *))                                                               \
    SHIM(int32_t, torch_list_push_back, (List, Value))                                                                        \
    SHIM(int32_t, torch_delete_list, (List))                                                                                  \
    SHIM(int32_t, torch_get_num_threads, (uint32_t *))                                                                        \
    SHIM(int32_t, aoti_torch_device_type_cpu, ())                                                                             \
    SHIM(int32_t, aoti_torch_dtype_float16, ())                                                                               \
    SHIM(int32_t, aoti_torch_dtype_bfloat16, ())                                                                              \
    SHIM(int32_t, aoti_torch_dtype_float32, ())                                                                               \
    SHIM(int32_t, aoti_torch_dtype_float64, ())                                                                               \
    SHIM(int32_t, aoti_torch_dtype_int8, ())                                                                                  \
    SHIM(int32_t, aoti_torch_dtype_int16, ())                                                                                 \
    SHIM(int32_t, aoti_torch_dtype_int32, ())                                                                                 \
    SHIM(int32_t, aoti_torch_dtype_int64, ())

struct Shim {
#define SHIM(result, name, arguments) result(*name) arguments;
    DEFORMKIT_TORCH_SHIMS(SHIM)
#undef SHIM
};

}  // namespace deformkit::torch
