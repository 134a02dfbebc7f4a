// The C interface as Python functions: arrays in, arrays written, statuses raised. What they mean is said in the package.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "python/native/tensor.h"
#include "python/native/xla.h"

namespace deformkit::python {

namespace {

void check(deformkit_status status) {
    const char *message = deformkit_last_error();
    switch (status) {
        case DEFORMKIT_OK:
            return;
        case DEFORMKIT_WRONG_DTYPE:
            throw nb::type_error(message);
        case DEFORMKIT_NULL_ARGUMENT:
        case DEFORMKIT_WRONG_SHAPE:
        case DEFORMKIT_WRONG_DEVICE:
        case DEFORMKIT_OVERLAPPING_OUTPUT:
        case DEFORMKIT_INVALID_VALUE:
            throw nb::value_error(message);
        case DEFORMKIT_OUT_OF_MEMORY:
            PyErr_SetString(PyExc_MemoryError, message);
            throw nb::python_error();
        case DEFORMKIT_NO_VARIANT:
        case DEFORMKIT_DEVICE_FAILURE:
        case DEFORMKIT_INTERNAL_ERROR:
            break;
    }
    PyErr_SetString(PyExc_RuntimeError, message);
    throw nb::python_error();
}

/// The library's own number of threads, which is that of the process; other callers, such as PyTorch, have one of their own.
constexpr int kOwnThreads = -1;
constexpr int kMostThreads = 256;

template <typename... Tensors, typename... Views>
void call(deformkit_status (*function)(Tensors *...), int threads, Views &&...tensors) {
    const deformkit_thread_pool pool = {std::min(threads, kMostThreads), nullptr, nullptr};
    deformkit_status status;
    {
        const nb::gil_scoped_release release;
        const deformkit_thread_pool *before = deformkit_set_thread_pool(threads == kOwnThreads ? nullptr : &pool);
        status = function(tensors.get()...);
        deformkit_set_thread_pool(before);
    }
    check(status);  // the message belongs to this thread
}

template <typename>
using AnyArray = nb::handle;

template <typename>
auto or_none() {
    return nb::arg().none();
}

/// name(threads, *tensors): outputs are the arguments that the C function does not take as const.
template <typename... Tensors, size_t... I>
void bind(nb::module_ &module, const char *name, deformkit_status (*function)(Tensors *...), std::index_sequence<I...>) {
    module.def(
        name,
        [function](int threads, AnyArray<Tensors>... arrays) {
            Tensor tensors[] = {{arrays, !std::is_const_v<Tensors>, I}...};  // in order: an error is the first wrong one's
            call(function, threads, tensors[I]...);
        },
        nb::arg(), or_none<Tensors>()...);
}

template <typename... Tensors>
void bind(nb::module_ &module, const char *name, deformkit_status (*function)(Tensors *...)) {
    bind(module, name, function, std::index_sequence_for<Tensors...>());
}

/// For memory that nothing has been written to: its first touch then takes a fault per 2 MB rather than per 4 KB. Only advice.
void prefer_huge_pages(uintptr_t data, size_t bytes) {
    constexpr uintptr_t kPage = 4096;
    const uintptr_t begin = (data + kPage - 1) / kPage * kPage, end = (data + bytes) / kPage * kPage;
    if (begin < end) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch gives addresses as numbers
        madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
    }
}

/// name, value, standard, lowest, highest, meaning
nb::list knobs() {
    nb::list rows;
    for (int i = 0; i < deformkit_num_knobs(); i++) {
        const char *name = deformkit_knob_name(i);
        int64_t value = 0, standard = 0, lowest = 0, highest = 0;
        check(deformkit_get_knob(name, &value));
        check(deformkit_knob_range(name, &standard, &lowest, &highest));
        rows.append(nb::make_tuple(name, value, standard, lowest, highest, deformkit_knob_meaning(i)));
    }
    return rows;
}

}  // namespace

NB_MODULE(_native, module) {
    bind(module, "msda_forward", deformkit_msda_forward);
    bind(module, "msda_backward", deformkit_msda_backward);
    bind(module, "deformable_aggregation_forward", deformkit_deformable_aggregation_forward);
    bind(module, "deformable_aggregation_backward", deformkit_deformable_aggregation_backward);
    bind(module, "geometric_kernel_attention_forward", deformkit_geometric_kernel_attention_forward);
    bind(module, "geometric_kernel_attention_backward", deformkit_geometric_kernel_attention_backward);

    module.def("prefer_huge_pages", prefer_huge_pages);
    module.def("set_num_threads", [](int count) { check(deformkit_set_num_threads(count)); });
    module.def("get_num_threads", [] {
        const int count = deformkit_get_num_threads();
        check(count < 0 ? DEFORMKIT_INVALID_VALUE : DEFORMKIT_OK);
        return count;
    });
    module.def("xla_handlers", [] {
        nb::dict handlers;
        for (const XlaHandler &handler : xla_handlers()) {
            handlers[handler.name] = nb::capsule(reinterpret_cast<void *>(handler.function));
        }
        return handlers;
    });
    module.def(
        "set_target",
        [](std::optional<std::string> target) { check(deformkit_set_target(target ? target->c_str() : nullptr)); },
        nb::arg("target").none());
    module.def("release_memory", deformkit_release_memory);
    module.def("set_stream", [](int device_type, int device_id, uintptr_t stream) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch gives streams as numbers
        check(deformkit_set_stream({static_cast<DLDeviceType>(device_type), device_id}, reinterpret_cast<void *>(stream)));
    });
    module.def("set_deterministic", [](bool deterministic) { check(deformkit_set_deterministic(deterministic ? 1 : 0)); });
    module.def("warm_up", [](int device_type, int device_id) {
        deformkit_status status;
        {
            const nb::gil_scoped_release release;
            status = deformkit_warm_up({static_cast<DLDeviceType>(device_type), device_id});
        }
        check(status);
    });
    module.def("last_variant", deformkit_last_variant);
    module.def("last_device", deformkit_last_device);
    module.def("knobs", knobs);
    module.def("set_knob", [](const std::string &name, int64_t value) { check(deformkit_set_knob(name.c_str(), value)); });
    module.def("knobs_file", deformkit_knobs_file);
    module.def("version", deformkit_version);
    module.def("storage_types", [] {
        nb::dict mantissa_bits;
#define DEFORMKIT_TYPE(name, enumerator, long_name, dlpack_code, bits, arithmetic, exponent, mantissa) \
    mantissa_bits[#long_name] = mantissa;
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
        return mantissa_bits;
    });
}

}  // namespace deformkit::python
