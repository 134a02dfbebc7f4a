// What an aclTensor stands for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "aclnn/acl_meta.h"
#include "compat/ascend/handles.h"

namespace deformkit::ascend {

constexpr uint64_t kMaxAxes = 8;

struct Axes {
    uint64_t count = 0;
    std::array<int64_t, kMaxAxes> extents{};

    std::string text() const;
};

struct TensorView {
    Axes shape, storage;
    std::array<int64_t, kMaxAxes> strides{};  // in elements
    int64_t offset = 0;
    aclDataType type = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    void *data = nullptr;

    bool empty() const;
    /// Whether no element lies outside of the storage.
    bool fits_storage() const;
};

Handles<const TensorView> &tensors();

}  // namespace deformkit::ascend
