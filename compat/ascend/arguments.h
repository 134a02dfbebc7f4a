// What a first phase checks of its tensors, in the interface's own names.
#pragma once

#include <deformkit/deformkit.h>

#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "compat/ascend/tensor.h"

namespace deformkit::ascend {

enum class Type { kFloating, kIndex };

struct Argument {
    const char *name;
    const aclTensor *tensor;
    Type type;
    /// One list of axes, or two to choose from by their number. An axis is a number, a name, or a product of two names (a*b);
    /// the same name means the same extent throughout. A name with a plus may be longer, and what it has more is not looked at.
    std::vector<std::vector<const char *>> axes;
    const char *library_name;  ///< what deformkit calls it
};

/// The tensors of a call, looked up and checked. Throws an Error.
class Arguments {
public:
    explicit Arguments(const std::vector<Argument> &arguments);

    /// By the order of the arguments. Points into this object.
    const DLTensor *operator[](size_t i) const { return &tensors_[i].dl; }
    /// What an axis has been found to be.
    int64_t extent(const std::string &axis) const { return extents_.at(axis).value; }
    /// What the library says of its arguments, in the interface's names.
    std::string translate(const std::string &message) const;

private:
    struct Extent {
        int64_t value;
        const char *argument;  // where it was first seen
    };
    struct Tensor {
        TensorView view;
        DLTensor dl;
    };

    void check_type(const Argument &argument, const TensorView &view);
    void check_shape(const Argument &argument, const TensorView &view);
    void drop_surplus(const Argument &argument, TensorView &view) const;

    std::vector<Argument> arguments_;
    std::vector<Tensor> tensors_;
    std::map<std::string, Extent> extents_;
    const TensorView *floating_ = nullptr;
    const char *floating_name_ = nullptr;
};

}  // namespace deformkit::ascend
