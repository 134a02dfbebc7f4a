// The operators as OpenVINO's, in the opset "deformkit", on the CPU plugin's threads; and how its frontends make them: of ONNX's
// nodes in the domain "deformkit", and of PyTorch's operators.
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <openvino/frontend/pytorch/extension/conversion.hpp>
#include <openvino/op/op.hpp>
#include <string>
#include <vector>

#include "deformkit/deformkit.h"

namespace deformkit::openvino {

namespace {

constexpr size_t kInputs = 5;

DLDataType dlpack_type(const ov::element::Type &type) {
    if (type == ov::element::bf16) {
        return {kDLBfloat, 16, 1};
    }
    const auto bits = static_cast<uint8_t>(type.bitwidth());
    return {static_cast<uint8_t>(type.is_real() ? kDLFloat : type.is_signed() ? kDLInt : kDLUInt), bits, 1};
}

class Tensor {
public:
    explicit Tensor(const ov::Tensor &tensor) : shape_(tensor.get_shape().begin(), tensor.get_shape().end()) {
        tensor_.data = const_cast<void *>(tensor.data());
        tensor_.device = {kDLCPU, 0};
        tensor_.dtype = dlpack_type(tensor.get_element_type());
        tensor_.ndim = static_cast<int32_t>(shape_.size());
        tensor_.shape = shape_.data();
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    DLTensor *get() { return &tensor_; }

private:
    std::vector<int64_t> shape_;
    DLTensor tensor_{};
};

/// While one lives, calls of the library run on the threads of this arena, which is the inference's.
class ArenaThreads {
public:
    ~ArenaThreads() { deformkit_set_thread_pool(before_); }

private:
    static void parallel_for(void *, int count, void (*part)(void *, int), void *parts) {
        tbb::parallel_for(
            tbb::blocked_range<int>(0, count),
            [&](const tbb::blocked_range<int> &range) {
                for (int i = range.begin(); i < range.end(); i++) {
                    part(parts, i);
                }
            },
            tbb::simple_partitioner());
    }

    const deformkit_thread_pool pool_{std::min(tbb::this_task_arena::max_concurrency(), 256), parallel_for, nullptr};
    const deformkit_thread_pool *const before_ = deformkit_set_thread_pool(&pool_);
};

using Forward = deformkit_status(const DLTensor *, const DLTensor *, const DLTensor *, const DLTensor *, const DLTensor *,
                                 DLTensor *);

/// What an operator is: its first input has the output's type; the output's first two axes are the first axis of that input and the
/// second of the fourth one, its last is the first input's last, or last two.
struct Msda {
    static constexpr const char *kNode = "MultiScaleDeformableAttention", *kFunction = "multi_scale_deformable_attn";
    static constexpr size_t kValueAxes = 4, kLocationAxes = 6;
    static constexpr Forward *kForward = deformkit_msda_forward;
};

struct Da {
    static constexpr const char *kNode = "DeformableAggregation", *kFunction = "deformable_aggregation";
    static constexpr size_t kValueAxes = 3, kLocationAxes = 5;
    static constexpr Forward *kForward = deformkit_deformable_aggregation_forward;
};

struct Gka {
    static constexpr const char *kNode = "GeometricKernelAttention", *kFunction = "geometric_kernel_attention";
    static constexpr size_t kValueAxes = 4, kLocationAxes = 6;
    static constexpr Forward *kForward = deformkit_geometric_kernel_attention_forward;
};

template <typename Operator>
class Node : public ov::op::Op {
public:
    static const ov::DiscreteTypeInfo &get_type_info_static() {
        static const ov::DiscreteTypeInfo info = [] {
            ov::DiscreteTypeInfo made{Operator::kNode, "deformkit", &ov::op::Op::get_type_info_static()};
            made.hash();
            return made;
        }();
        return info;
    }
    const ov::DiscreteTypeInfo &get_type_info() const override { return get_type_info_static(); }

    Node() = default;
    explicit Node(const ov::OutputVector &inputs) : Op(inputs) { constructor_validate_and_infer_types(); }

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == kInputs, "expected ", kInputs, " inputs, got ", get_input_size());
        ov::PartialShape output = ov::PartialShape::dynamic(3);
        const ov::PartialShape &value = get_input_partial_shape(0), &locations = get_input_partial_shape(3);
        NODE_VALIDATION_CHECK(this, value.rank().compatible(Operator::kValueAxes), "the first input has axes ", value);
        NODE_VALIDATION_CHECK(this, locations.rank().compatible(Operator::kLocationAxes), "the fourth input has axes ",
                              locations);
        if (value.rank().is_static()) {
            output[0] = value[0];
            output[2] = Operator::kValueAxes == 4 ? value[2] * value[3] : value[2];
        }
        if (locations.rank().is_static()) {
            output[1] = locations[1];
        }
        set_output_type(0, get_input_element_type(0), output);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector &inputs) const override {
        return std::make_shared<Node>(inputs);
    }

    bool visit_attributes(ov::AttributeVisitor &) override { return true; }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector &outputs, const ov::TensorVector &inputs) const override {
        Tensor in[kInputs] = {Tensor(inputs[0]), Tensor(inputs[1]), Tensor(inputs[2]), Tensor(inputs[3]), Tensor(inputs[4])};
        const ov::Shape &value = inputs[0].get_shape(), &locations = inputs[3].get_shape();
        outputs[0].set_shape({value[0], locations[1], Operator::kValueAxes == 4 ? value[2] * value[3] : value[2]});
        const ArenaThreads threads;
        const deformkit_status status =
            Operator::kForward(in[0].get(), in[1].get(), in[2].get(), in[3].get(), in[4].get(), Tensor(outputs[0]).get());
        OPENVINO_ASSERT(status == DEFORMKIT_OK, deformkit_last_error());
        return true;
    }
};

template <typename Operator>
ov::OutputVector convert(const ov::frontend::NodeContext &context) {
    ov::OutputVector inputs;
    for (size_t i = 0; i < kInputs; i++) {
        inputs.push_back(context.get_input(static_cast<int>(i)));
    }
    return {std::make_shared<Node<Operator>>(inputs)};
}

template <typename Operator>
void add(std::vector<ov::Extension::Ptr> &extensions) {
    extensions.push_back(std::make_shared<ov::OpExtension<Node<Operator>>>());
    extensions.push_back(
        std::make_shared<ov::frontend::onnx::ConversionExtension>(Operator::kNode, "deformkit", convert<Operator>));
    // As torch.jit.trace and as torch.export name it.
    const std::string function = Operator::kFunction;
    for (const std::string &name : {"deformkit::" + function, "deformkit." + function + ".default"}) {
        extensions.push_back(std::make_shared<ov::frontend::pytorch::ConversionExtension>(name, convert<Operator>));
    }
}

}  // namespace

std::vector<ov::Extension::Ptr> extensions() {
    std::vector<ov::Extension::Ptr> all;
    add<Msda>(all);
    add<Da>(all);
    add<Gka>(all);
    return all;
}

}  // namespace deformkit::openvino

OPENVINO_CREATE_EXTENSIONS(deformkit::openvino::extensions())
