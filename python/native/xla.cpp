#include "python/native/xla.h"

#include <deformkit/deformkit.h>

#include <string>
#include <type_traits>
#include <utility>

namespace deformkit::python {

namespace {

xla::Error *error(const xla::CallFrame *frame, xla::ErrorCode code, const char *message) {
    xla::ErrorArguments arguments = {sizeof(xla::ErrorArguments), nullptr, message, code};
    return frame->api->create_error(&arguments);
}

xla::Error *error(const xla::CallFrame *frame, deformkit_status status) {
    switch (status) {
        case DEFORMKIT_OK:
            return nullptr;
        case DEFORMKIT_OUT_OF_MEMORY:
            return error(frame, xla::kResourceExhausted, deformkit_last_error());
        case DEFORMKIT_NO_VARIANT:
            return error(frame, xla::kUnimplemented, deformkit_last_error());
        case DEFORMKIT_DEVICE_FAILURE:
        case DEFORMKIT_INTERNAL_ERROR:
            return error(frame, xla::kInternal, deformkit_last_error());
        default:
            return error(frame, xla::kInvalidArgument, deformkit_last_error());
    }
}

/// Whether this call only asks for the version. All versions from this one on are accepted.
bool describe(xla::CallFrame *frame) {
    if (frame->extensions == nullptr || frame->extensions->type != xla::kMetadataExtension) {
        return false;
    }
    xla::Metadata &metadata = *reinterpret_cast<xla::MetadataExtension *>(frame->extensions)->metadata;
    metadata.version = {sizeof(xla::Version), nullptr, 0, 1};
    metadata.traits = 0;
    return true;
}

/// No type of the library's has 0 bits: what is not listed is refused by the library.
DLDataType data_type(int type) {
    switch (type) {
        case xla::kS8:
            return {kDLInt, 8, 1};
        case xla::kS16:
            return {kDLInt, 16, 1};
        case xla::kS32:
            return {kDLInt, 32, 1};
        case xla::kS64:
            return {kDLInt, 64, 1};
        case xla::kF16:
            return {kDLFloat, 16, 1};
        case xla::kF32:
            return {kDLFloat, 32, 1};
        case xla::kF64:
            return {kDLFloat, 64, 1};
        case xla::kBF16:
            return {kDLBfloat, 16, 1};
        default:
            return {kDLOpaqueHandle, 0, 1};
    }
}

DLTensor view(const void *value) {
    const auto &buffer = *static_cast<const xla::Buffer *>(value);
    DLTensor tensor{};
    tensor.data = buffer.data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(buffer.rank);
    tensor.dtype = data_type(buffer.dtype);
    tensor.shape = buffer.dims;
    return tensor;
}

uint32_t wanted_results(const xla::Attributes &attributes) {
    for (int64_t i = 0; i < attributes.size; i++) {
        const xla::Name &name = *attributes.names[i];
        if (attributes.types[i] == xla::kScalarAttribute && std::string(name.data, name.size) == "wanted") {
            const auto &scalar = *static_cast<const xla::Scalar *>(attributes.values[i]);
            if (scalar.dtype == xla::kS32) {
                return *static_cast<const uint32_t *>(scalar.value);
            }
        }
    }
    return ~uint32_t{0};
}

template <auto kFunction>
struct Handler;

template <typename... Tensors, deformkit_status (*kFunction)(Tensors *...)>
struct Handler<kFunction> {
    static constexpr bool kIsInput[] = {std::is_const_v<Tensors>...};

    template <size_t... I>
    static deformkit_status run(DLTensor **tensors, std::index_sequence<I...>) {
        return kFunction(tensors[I]...);
    }

    static xla::Error *call(xla::CallFrame *frame) {
        if (describe(frame)) {
            return nullptr;
        }
        const uint32_t wanted = wanted_results(frame->attributes);
        DLTensor views[sizeof...(Tensors)];
        DLTensor *tensors[sizeof...(Tensors)] = {};
        int64_t inputs = 0, outputs = 0, results = 0;
        for (size_t i = 0; i < sizeof...(Tensors); i++) {
            if (!kIsInput[i] && (wanted >> outputs++ & 1) == 0) {
                continue;
            }
            const xla::Values &values = kIsInput[i] ? frame->arguments : frame->results;
            int64_t &position = kIsInput[i] ? inputs : results;
            if (position == values.size) {
                return error(frame, xla::kInvalidArgument, "too few arguments or results");
            }
            views[i] = view(values.values[position++]);
            tensors[i] = &views[i];
        }
        if (inputs != frame->arguments.size || results != frame->results.size) {
            return error(frame, xla::kInvalidArgument, "too many arguments or results");
        }
        return error(frame, run(tensors, std::index_sequence_for<Tensors...>()));
    }
};

xla::Error *refuse(xla::CallFrame *frame) {
    return describe(frame) ? nullptr
                           : error(frame, xla::kUnimplemented,
                                   "deformkit's operators run on the CPU alone in JAX: put their arrays there with "
                                   "jax.device_put(array, jax.devices('cpu')[0])");
}

}  // namespace

std::vector<XlaHandler> xla_handlers() {
    return {
        {"msda_forward", Handler<deformkit_msda_forward>::call},
        {"msda_backward", Handler<deformkit_msda_backward>::call},
        {"deformable_aggregation_forward", Handler<deformkit_deformable_aggregation_forward>::call},
        {"deformable_aggregation_backward", Handler<deformkit_deformable_aggregation_backward>::call},
        {"geometric_kernel_attention_forward", Handler<deformkit_geometric_kernel_attention_forward>::call},
        {"geometric_kernel_attention_backward", Handler<deformkit_geometric_kernel_attention_backward>::call},
        {"refuse", refuse},
    };
}

}  // namespace deformkit::python
