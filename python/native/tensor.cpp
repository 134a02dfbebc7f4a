#include "python/native/tensor.h"

#include <string>
#include <unordered_map>

#include "python/native/exchange.h"

namespace deformkit::python {

namespace {

/// The table of an array type, or NULL. Types are looked up once and kept alive: a lookup costs as much as the rest of a view.
/// Guarded by the GIL.
const ExchangeApi *exchange_api(nb::handle type) {
    static auto &known = *new std::unordered_map<PyObject *, const ExchangeApi *>;
    if (const auto found = known.find(type.ptr()); found != known.end()) {
        return found->second;
    }
    const ExchangeApi *api = nullptr;
    const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
    if (PyCapsule_IsValid(capsule.ptr(), kExchangeApiCapsule)) {
        api = static_cast<const ExchangeApi *>(PyCapsule_GetPointer(capsule.ptr(), kExchangeApiCapsule));
        while (api != nullptr && api->major > 1) {
            api = api->previous;
        }
        if (api != nullptr && (api->major < 1 || api->view == nullptr)) {
            api = nullptr;
        }
    }
    type.inc_ref();
    known.emplace(type.ptr(), api);
    return api;
}

template <typename Array>
DLTensor view_of(const Array &array) {
    DLTensor tensor{};
    tensor.data = const_cast<void *>(static_cast<const void *>(array.data()));
    tensor.device = {static_cast<DLDeviceType>(array.device_type()), array.device_id()};
    tensor.ndim = static_cast<int32_t>(array.ndim());
    tensor.dtype = {array.dtype().code, array.dtype().bits, array.dtype().lanes};
    tensor.shape = const_cast<int64_t *>(array.shape_ptr());
    tensor.strides = const_cast<int64_t *>(array.stride_ptr());
    return tensor;
}

template <typename Array>
bool borrow(nb::handle object, Array &array, DLTensor &tensor) {
    if (!nb::try_cast<Array>(object, array, false)) {
        return false;
    }
    tensor = view_of(array);
    return true;
}

struct StorageType {
    const char *long_name;
    DLDataType dtype;
};

constexpr StorageType kStorageTypes[] = {
#define DEFORMKIT_TYPE(name, enumerator, long_name, dlpack_code, bits, arithmetic, exponent, mantissa) \
    {#long_name, {dlpack_code, bits, 1}},
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
};

/// NumPy hands over no types but its own: ml_dtypes' bfloat16 goes as the integers that hold it. The type that they are of, or
/// nullptr.
const StorageType *as_bits(nb::handle object, nb::object &bits) {
    const nb::object dtype = nb::getattr(object, "dtype", nb::none());
    if (dtype.is_none() || !nb::hasattr(object, "__array_interface__")) {
        return nullptr;
    }
    const std::string name = nb::str(dtype).c_str();
    for (const StorageType &type : kStorageTypes) {
        if (name == type.long_name) {
            bits = object.attr("view")(("uint" + std::to_string(type.dtype.bits)).c_str());
            return &type;
        }
    }
    return nullptr;
}

/// Why an array does not hand itself over, such as one of another byte order; "" if it is none.
std::string refusal(nb::handle object) {
    try {
        if (nb::hasattr(object, "__dlpack__")) {
            object.attr("__dlpack__")();
        }
    } catch (const nb::python_error &error) {
        return std::string(": ") + nb::str(error.value()).c_str();
    }
    return "";
}

}  // namespace

Tensor::Tensor(nb::handle object, bool writable, size_t position) {
    if (object.is_none()) {
        null_ = true;
        return;
    }
    if (const ExchangeApi *api = exchange_api(object.type())) {
        if (api->view(object.ptr(), &tensor_) != 0) {
            throw nb::python_error();
        }
        return;
    }
    const auto take = [&](nb::handle from) {
        return writable ? borrow(from, writable_, tensor_) : borrow(from, readable_, tensor_);
    };
    if (take(object)) {
        return;
    }
    nb::object bits;
    if (const StorageType *type = as_bits(object, bits); type != nullptr && take(bits)) {
        tensor_.dtype = type->dtype;
        return;
    }
    throw nb::type_error(("argument " + std::to_string(position) + ": expected an array that speaks DLPack" +
                          std::string(writable ? " and can be written to" : "") + ", got " +
                          nb::type_name(object.type()).c_str() + refusal(object))
                             .c_str());
}

}  // namespace deformkit::python
