#include "acl.h"

#include <stdexcept>
#include <vector>

namespace deformkit::testing {

std::string recent_message() {
    const char *message = aclGetRecentErrMsg();
    return message == nullptr ? "" : message;
}

namespace {

aclDataType acl_type(DLDataType dtype) {
    switch (dtype.code) {
        case kDLFloat:
            return dtype.bits == 32 ? ACL_FLOAT : dtype.bits == 16 ? ACL_FLOAT16 : ACL_DOUBLE;
        case kDLBfloat:
            return ACL_BF16;
        case kDLInt:
            return dtype.bits == 32 ? ACL_INT32 : ACL_INT64;
        default:
            throw std::invalid_argument("AclTensor: a type without a counterpart");
    }
}

}  // namespace

AclTensor::AclTensor(const DLTensor &t) {
    std::vector<int64_t> shape(t.shape, t.shape + t.ndim), strides = dense_strides(shape);
    if (t.strides != nullptr) {
        strides.assign(t.strides, t.strides + t.ndim);
    }
    int64_t lowest = 0, highest = 0;
    for (size_t i = 0; i < shape.size(); i++) {
        if (count_of(shape) > 0) {
            (strides[i] < 0 ? lowest : highest) += strides[i] * (shape[i] - 1);
        }
    }
    const int64_t storage = count_of(shape) > 0 ? highest - lowest + 1 : 0;
    const int64_t element_bytes = t.dtype.bits / 8;
    void *data = static_cast<uint8_t *>(t.data) + t.byte_offset + lowest * element_bytes;
    tensor_ = aclCreateTensor(shape.data(), shape.size(), acl_type(t.dtype), t.strides == nullptr ? nullptr : strides.data(),
                              -lowest, ACL_FORMAT_ND, &storage, 1, data);
    if (tensor_ == nullptr) {
        throw std::invalid_argument("aclCreateTensor: " + recent_message());
    }
}

int run_to_end(SecondPhase second_phase, const Prepared &prepared, Guard guard) {
    if (prepared.status != ACL_SUCCESS) {
        return prepared.status;
    }
    GuardedBuffer workspace(prepared.workspace_bytes, guard);
    const int launched = second_phase(workspace.data(), prepared.workspace_bytes, prepared.executor, nullptr);
    const int synchronised = aclrtSynchronizeStream(nullptr);
    EXPECT_TRUE(workspace.poison_intact()) << "something was written beside the workspace";
    return launched != ACL_SUCCESS ? launched : synchronised;
}

}  // namespace deformkit::testing
