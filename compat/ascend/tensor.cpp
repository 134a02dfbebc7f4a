#include "compat/ascend/tensor.h"

#include <algorithm>

#include "compat/ascend/status.h"

namespace deformkit::ascend {

namespace {

Axes axes_of(const char *name, const int64_t *extents, uint64_t count) {
    if (count > kMaxAxes) {
        throw Error(kInvalid, std::string(name) + ": expected at most " + std::to_string(kMaxAxes) + " axes, got " +
                                  std::to_string(count));
    }
    if (extents == nullptr && count > 0) {
        throw Error(kNullPointer, std::string(name) + ": expected " + std::to_string(count) + " extents, got NULL");
    }
    Axes axes;
    axes.count = count;
    int64_t elements = 1;
    for (uint64_t i = 0; i < count; i++) {
        axes.extents[i] = extents[i];
        if (extents[i] < 0) {
            throw Error(kInvalid, std::string(name) + ": expected no negative extent, got " + std::to_string(extents[i]));
        }
        if (__builtin_mul_overflow(elements, std::max<int64_t>(extents[i], 1), &elements)) {
            throw Error(kInvalid, std::string(name) + ": expected a number of elements below 2^63");
        }
    }
    return axes;
}

std::shared_ptr<const TensorView> view_of(const aclTensor *tensor) {
    if (tensor == nullptr) {
        throw Error(kNullPointer, "tensor: expected one, got NULL");
    }
    std::shared_ptr<const TensorView> view = tensors().find(tensor);
    if (view == nullptr) {
        throw Error(kInvalid, "tensor: expected one from aclCreateTensor that has not been destroyed");
    }
    return view;
}

template <typename T>
T &place(T *pointer, const char *name) {
    if (pointer == nullptr) {
        throw Error(kNullPointer, std::string(name) + ": expected where to put it, got NULL");
    }
    return *pointer;
}

void hand_out(const int64_t *from, uint64_t count, int64_t **values, const char *values_name, uint64_t *number,
              const char *number_name) {
    int64_t *&to = place(values, values_name);
    place(number, number_name) = count;
    to = new int64_t[std::max<uint64_t>(count, 1)];
    std::copy_n(from, count, to);
}

}  // namespace

std::string Axes::text() const {
    std::string text = "[";
    for (uint64_t i = 0; i < count; i++) {
        text += (i > 0 ? ", " : "") + std::to_string(extents[i]);
    }
    return text + "]";
}

bool TensorView::empty() const {
    return std::find(&shape.extents[0], &shape.extents[shape.count], 0) != &shape.extents[shape.count];
}

bool TensorView::fits_storage() const {
    if (empty()) {
        return true;
    }
    int64_t first = offset, last = offset, stored = 1;
    for (uint64_t i = 0; i < shape.count; i++) {
        int64_t reach = 0;
        int64_t &end = strides[i] < 0 ? first : last;
        if (__builtin_mul_overflow(strides[i], shape.extents[i] - 1, &reach) || __builtin_add_overflow(end, reach, &end)) {
            return false;
        }
    }
    for (uint64_t i = 0; i < storage.count; i++) {
        stored *= storage.extents[i];
    }
    return first >= 0 && last < stored;
}

Handles<const TensorView> &tensors() {
    static auto *all = new Handles<const TensorView>;
    return *all;
}

}  // namespace deformkit::ascend

using namespace deformkit::ascend;

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                           void *tensorData) {
    void *handle = nullptr;
    returning(kAclnnCodes, [&] {
        auto view = std::make_shared<TensorView>();
        view->shape = axes_of("viewDims", viewDims, viewDimsNum);
        view->storage = axes_of("storageDims", storageDims, storageDimsNum);
        int64_t dense = 1;
        for (uint64_t i = viewDimsNum; i-- > 0;) {
            view->strides[i] = stride != nullptr ? stride[i] : dense;
            dense *= std::max<int64_t>(viewDims[i], 1);
        }
        view->offset = offset;
        view->type = dataType;
        view->format = format;
        view->data = tensorData;
        handle = tensors().add(std::move(view));
    });
    return static_cast<aclTensor *>(handle);
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
    return returning(kAclnnCodes, [&] {
        if (tensor != nullptr && tensors().take(tensor) == nullptr) {
            throw Error(kInvalid, "tensor: expected one from aclCreateTensor that has not been destroyed");
        }
    });
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
    return returning(kAclnnCodes, [&] {
        const auto view = view_of(tensor);
        hand_out(view->shape.extents.data(), view->shape.count, viewDims, "viewDims", viewDimsNum, "viewDimsNum");
    });
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum) {
    return returning(kAclnnCodes, [&] {
        const auto view = view_of(tensor);
        hand_out(view->strides.data(), view->shape.count, stridesValue, "stridesValue", stridesNum, "stridesNum");
    });
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum) {
    return returning(kAclnnCodes, [&] {
        const auto view = view_of(tensor);
        hand_out(view->storage.extents.data(), view->storage.count, storageDims, "storageDims", storageDimsNum,
                 "storageDimsNum");
    });
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset) {
    return returning(kAclnnCodes, [&] { place(offset, "offset") = view_of(tensor)->offset; });
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format) {
    return returning(kAclnnCodes, [&] { place(format, "format") = view_of(tensor)->format; });
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType) {
    return returning(kAclnnCodes, [&] { place(dataType, "dataType") = view_of(tensor)->type; });
}
