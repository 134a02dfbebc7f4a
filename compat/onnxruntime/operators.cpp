// The operators as ONNX Runtime's custom operators, in the domain "deformkit": one node each, with symbolic shapes, on the
// session's own threads.
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compat/onnxruntime/abi.h"
#include "deformkit/deformkit.h"

namespace deformkit::onnxruntime {

namespace {

constexpr size_t kInputs = 5;

/// All three take five tensors and give one, whose first two axes are value's first and the fourth input's second.
struct Operator {
    const char *name;
    std::array<size_t, kInputs> axes;
    std::array<bool, kInputs> as_value;  // its type is that of the first input
    bool joins;                          // the output's last axis is the first input's last two
    deformkit_status (*forward)(const DLTensor *, const DLTensor *, const DLTensor *, const DLTensor *, const DLTensor *,
                                DLTensor *);
};

constexpr Operator kOperators[] = {
    {"MultiScaleDeformableAttention", {4, 2, 1, 6, 5}, {true, false, false, true, true}, true, deformkit_msda_forward},
    {"DeformableAggregation",
     {3, 3, 2, 5, 6},
     {true, false, false, true, true},
     false,
     deformkit_deformable_aggregation_forward},
    {"GeometricKernelAttention",
     {4, 2, 1, 6, 5},
     {true, false, false, false, true},
     true,
     deformkit_geometric_kernel_attention_forward},
};

struct NumberType {
    ONNXTensorElementDataType onnx;
    DLDataType dlpack;
};

constexpr NumberType kStorageTypes[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {kDLFloat, 32, 1}},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, {kDLFloat, 16, 1}},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, {kDLBfloat, 16, 1}},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, {kDLFloat, 64, 1}},
};

constexpr NumberType kOtherTypes[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, {kDLInt, 8, 1}},     {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, {kDLInt, 16, 1}},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, {kDLInt, 32, 1}},   {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {kDLInt, 64, 1}},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, {kDLUInt, 8, 1}},   {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, {kDLUInt, 16, 1}},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, {kDLUInt, 32, 1}}, {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, {kDLUInt, 64, 1}},
};

/// A failed call of ONNX Runtime's, or one of ours: to be handed back.
struct Failed {
    OrtStatus *status;
};

void require(OrtStatus *status) {
    if (status != nullptr) {
        throw Failed{status};
    }
}

/// Exceptions end here.
template <typename Body>
OrtStatus *guarded(const OrtApi *api, Body &&body) noexcept {
    try {
        body();
        return nullptr;
    } catch (const Failed &failed) {
        return failed.status;
    } catch (const std::exception &error) {
        return CreateStatus::call(api, ORT_FAIL, error.what());
    }
}

/// An operator for one type of value. Tables, and geometric kernel attention's locations, may be of any type that the library takes.
struct CustomOp : OrtCustomOp {
    CustomOp(const OrtApi *api, const Operator &op, const NumberType &type);

    const OrtApi *api;
    const Operator &op;
    ONNXTensorElementDataType type;
};

const CustomOp &self(const OrtCustomOp *op) {
    return *static_cast<const CustomOp *>(op);
}

class Tensor {
public:
    Tensor(const OrtApi *api, const OrtValue *value) {
        OrtTensorTypeAndShapeInfo *info = nullptr;
        require(GetTensorTypeAndShape::call(api, value, &info));
        OrtStatus *const status = read(api, info);
        ReleaseTensorTypeAndShapeInfo::call(api, info);
        require(status);
        require(GetTensorMutableData::call(api, const_cast<OrtValue *>(value), &tensor_.data));
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    DLTensor *get() { return &tensor_; }
    size_t axes() const { return shape_.size(); }
    int64_t extent(size_t axis) const { return shape_[axis]; }

private:
    OrtStatus *read(const OrtApi *api, const OrtTensorTypeAndShapeInfo *info) {
        ONNXTensorElementDataType type{};
        size_t axes = 0;
        if (OrtStatus *status = GetTensorElementType::call(api, info, &type)) {
            return status;
        }
        if (OrtStatus *status = GetDimensionsCount::call(api, info, &axes)) {
            return status;
        }
        shape_.resize(axes);
        tensor_.ndim = static_cast<int32_t>(axes);
        tensor_.shape = shape_.data();
        tensor_.device = {kDLCPU, 0};
        tensor_.dtype = {kDLOpaqueHandle, 64, 1};  // which the library refuses
        for (const NumberType &known : kStorageTypes) {
            tensor_.dtype = known.onnx == type ? known.dlpack : tensor_.dtype;
        }
        for (const NumberType &known : kOtherTypes) {
            tensor_.dtype = known.onnx == type ? known.dlpack : tensor_.dtype;
        }
        return GetDimensions::call(api, info, shape_.data(), axes);
    }

    DLTensor tensor_{};
    std::vector<int64_t> shape_;
};

/// While one lives, calls of the library run on the session's threads.
class SessionThreads {
public:
    SessionThreads(const OrtApi *api, const OrtKernelContext *context) : api_(api), context_(context) {}
    ~SessionThreads() { deformkit_set_thread_pool(before_); }
    SessionThreads(const SessionThreads &) = delete;
    SessionThreads &operator=(const SessionThreads &) = delete;

private:
    struct Parts {
        void (*part)(void *, int);
        void *parts;
    };

    static void parallel_for(void *context, int count, void (*part)(void *, int), void *parts) {
        const auto &session = *static_cast<const SessionThreads *>(context);
        Parts all{part, parts};
        const auto one = [](void *data, size_t i) {
            const Parts &all = *static_cast<const Parts *>(data);
            all.part(all.parts, static_cast<int>(i));
        };
        OrtStatus *const status =
            KernelContext_ParallelFor::call(session.api_, session.context_, one, static_cast<size_t>(count), 0, &all);
        if (status != nullptr) {  // nothing has run
            ReleaseStatus::call(session.api_, status);
            for (int i = 0; i < count; i++) {
                part(parts, i);
            }
        }
    }

    const OrtApi *api_;
    const OrtKernelContext *context_;
    const deformkit_thread_pool pool_{0, parallel_for, this};
    const deformkit_thread_pool *const before_ = deformkit_set_thread_pool(&pool_);
};

OrtErrorCode code_of(deformkit_status status) {
    switch (status) {
        case DEFORMKIT_NULL_ARGUMENT:
        case DEFORMKIT_WRONG_DTYPE:
        case DEFORMKIT_WRONG_SHAPE:
        case DEFORMKIT_WRONG_DEVICE:
        case DEFORMKIT_OVERLAPPING_OUTPUT:
        case DEFORMKIT_INVALID_VALUE:
            return ORT_INVALID_ARGUMENT;
        case DEFORMKIT_NO_VARIANT:
            return ORT_NOT_IMPLEMENTED;
        default:
            return ORT_FAIL;
    }
}

void compute(const CustomOp &custom, OrtKernelContext *context) {
    const OrtApi *const api = custom.api;
    const Operator &op = custom.op;
    const auto input = [&](size_t i) {
        const OrtValue *value = nullptr;
        require(KernelContext_GetInput::call(api, context, i, &value));
        return value;
    };
    Tensor inputs[kInputs] = {{api, input(0)}, {api, input(1)}, {api, input(2)}, {api, input(3)}, {api, input(4)}};
    const auto run = [&](DLTensor *output) {
        const SessionThreads threads(api, context);
        const deformkit_status status =
            op.forward(inputs[0].get(), inputs[1].get(), inputs[2].get(), inputs[3].get(), inputs[4].get(), output);
        if (status != DEFORMKIT_OK) {
            throw Failed{CreateStatus::call(api, code_of(status), deformkit_last_error())};
        }
    };
    if (inputs[0].axes() != op.axes[0] || inputs[3].axes() != op.axes[3]) {
        run(nullptr);  // the library says what is wrong
    }
    const int64_t last = inputs[0].extent(2) * (op.joins ? inputs[0].extent(3) : 1);
    const int64_t shape[] = {inputs[0].extent(0), inputs[3].extent(1), last};
    OrtValue *value = nullptr;
    require(KernelContext_GetOutput::call(api, context, 0, shape, std::size(shape), &value));
    run(Tensor(api, value).get());
}

struct Extent {
    int64_t number = -1;      // -1: not known
    const char *symbol = "";  // "": without a name
};

/// As far as it is known before the model runs.
std::vector<Extent> input_shape(const OrtApi *api, const OrtTensorTypeAndShapeInfo *info) {
    size_t axes = 0;
    require(GetDimensionsCount::call(api, info, &axes));
    std::vector<int64_t> numbers(axes, -1);
    std::vector<const char *> symbols(axes, "");
    require(GetDimensions::call(api, info, numbers.data(), axes));
    require(GetSymbolicDimensions::call(api, info, symbols.data(), axes));
    std::vector<Extent> shape;
    for (size_t axis = 0; axis < axes; axis++) {
        shape.push_back({numbers[axis], symbols[axis]});
    }
    return shape;
}

/// ONNX Runtime asks the first of an operator's types on behalf of all.
void infer_shape(const CustomOp &custom, OrtShapeInferContext *context) {
    const OrtApi *const api = custom.api;
    const Operator &op = custom.op;
    OrtTensorTypeAndShapeInfo *value_info = nullptr, *locations_info = nullptr;  // the context's
    require(ShapeInferContext_GetInputTypeShape::call(api, context, 0, &value_info));
    require(ShapeInferContext_GetInputTypeShape::call(api, context, 3, &locations_info));
    ONNXTensorElementDataType type{};
    require(GetTensorElementType::call(api, value_info, &type));
    const std::vector<Extent> value = input_shape(api, value_info), locations = input_shape(api, locations_info);
    if (value.size() != op.axes[0] || locations.size() != op.axes[3]) {
        return;  // of unknown rank, or wrong: the call will say so
    }
    Extent last = value[2];
    if (op.joins) {
        last = {value[2].number > 0 && value[3].number > 0 ? value[2].number * value[3].number : -1, ""};
    }
    const Extent shape[] = {value[0], locations[1], last};
    int64_t numbers[std::size(shape)];
    const char *symbols[std::size(shape)];
    std::string names[std::size(shape)];
    static std::atomic<int> nameless{0};
    for (size_t axis = 0; axis < std::size(shape); axis++) {
        numbers[axis] = shape[axis].number;
        symbols[axis] = shape[axis].symbol;
        if (numbers[axis] < 0 && *symbols[axis] == '\0') {  // ONNX Runtime would take the number for known
            names[axis] = "deformkit_" + std::to_string(nameless++);
            symbols[axis] = names[axis].c_str();
        }
    }
    OrtTensorTypeAndShapeInfo *made = nullptr;
    require(CreateTensorTypeAndShapeInfo::call(api, &made));
    const auto release = [api](OrtTensorTypeAndShapeInfo *info) { ReleaseTensorTypeAndShapeInfo::call(api, info); };
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(release)> info(made, release);
    require(SetTensorElementType::call(api, info.get(), type));
    require(SetDimensions::call(api, info.get(), numbers, std::size(numbers)));
    require(SetSymbolicDimensions::call(api, info.get(), symbols, std::size(symbols)));
    require(ShapeInferContext_SetOutputTypeShape::call(api, context, 0, info.get()));
}

CustomOp::CustomOp(const OrtApi *api, const Operator &op, const NumberType &type)
    : OrtCustomOp{}, api(api), op(op), type(type.onnx) {
    version = kApiVersion;
    GetName = [](const OrtCustomOp *op) { return self(op).op.name; };
    GetExecutionProviderType = [](const OrtCustomOp *) -> const char * { return nullptr; };  // the CPU's
    GetInputTypeCount = [](const OrtCustomOp *) { return kInputs; };
    GetOutputTypeCount = [](const OrtCustomOp *) { return size_t{1}; };
    GetInputType = [](const OrtCustomOp *op, size_t i) {
        return self(op).op.as_value[i] ? self(op).type : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    };
    GetOutputType = [](const OrtCustomOp *op, size_t) { return self(op).type; };
    GetInputCharacteristic = GetOutputCharacteristic = [](const OrtCustomOp *, size_t) { return INPUT_OUTPUT_REQUIRED; };
    GetInputMemoryType = [](const OrtCustomOp *, size_t) { return OrtMemTypeDefault; };
    GetVariadicInputMinArity = GetVariadicOutputMinArity = [](const OrtCustomOp *) { return 1; };
    GetVariadicInputHomogeneity = GetVariadicOutputHomogeneity = [](const OrtCustomOp *) { return 1; };
    GetStartVersion = GetEndVersion = [](const OrtCustomOp *) { return 1; };
    // The operator has no attributes, and is its own kernel.
    CreateKernelV2 = [](const OrtCustomOp *op, const OrtApi *, const OrtKernelInfo *, void **kernel) -> OrtStatus * {
        *kernel = const_cast<OrtCustomOp *>(op);
        return nullptr;
    };
    KernelDestroy = [](void *) {};
    KernelComputeV2 = [](void *kernel, OrtKernelContext *context) {
        const CustomOp &custom = self(static_cast<const OrtCustomOp *>(kernel));
        return guarded(custom.api, [&] { compute(custom, context); });
    };
    InferOutputShapeFn = [](const OrtCustomOp *op, OrtShapeInferContext *context) {
        return guarded(self(op).api, [&] { infer_shape(self(op), context); });
    };
}

/// The operators as one ONNX Runtime sees them; a process may have several. It refers to them until it unloads this library.
class Domain {
public:
    explicit Domain(const OrtApi *api) : api_(api) {
        require(CreateCustomOpDomain::call(api, "deformkit", &domain_));
        for (const Operator &op : kOperators) {
            for (const NumberType &type : kStorageTypes) {
                custom_ops_.push_back(std::make_unique<CustomOp>(api, op, type));
                require(CustomOpDomain_Add::call(api, domain_, custom_ops_.back().get()));
            }
        }
    }
    ~Domain() {
        if (domain_ != nullptr) {
            ReleaseCustomOpDomain::call(api_, domain_);
        }
    }
    Domain(const Domain &) = delete;
    Domain &operator=(const Domain &) = delete;

    void add_to(OrtSessionOptions *options) const { require(AddCustomOpDomain::call(api_, options, domain_)); }

private:
    const OrtApi *api_;
    OrtCustomOpDomain *domain_ = nullptr;
    std::vector<std::unique_ptr<CustomOp>> custom_ops_;
};

}  // namespace

}  // namespace deformkit::onnxruntime

/// What ONNX Runtime looks for in a library of custom operators.
extern "C" __attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options,
                                                                               const OrtApiBase *base) {
    using namespace deformkit::onnxruntime;
    const OrtApi *const api = base->GetApi(kApiVersion);
    if (api == nullptr) {
        const std::string message =
            std::string("deformkit needs ONNX Runtime 1.17 or newer, this is ") + base->GetVersionString();
        return CreateStatus::call(base->GetApi(1), ORT_FAIL, message.c_str());
    }
    return guarded(api, [&] {
        static std::mutex mutex;
        static std::map<const OrtApi *, Domain> domains;
        const std::lock_guard<std::mutex> lock(mutex);
        domains.try_emplace(api, api).first->second.add_to(options);
    });
}
