// The operators as PyTorch's, registered through its stable C interface.
#include <deformkit/deformkit.h>
#include <deformkit/torch.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "compat/torch/shim.h"

namespace deformkit::torch {

namespace {

Shim shim;

/// NULL, or what is missing.
const char *find_shim() {
    // Python loads PyTorch for itself alone; in a program that is linked with it statically it has no name.
    void *pytorch = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
#define SHIM(result, name, arguments)                                                                             \
    shim.name = reinterpret_cast<result(*) arguments>(dlsym(pytorch != nullptr ? pytorch : RTLD_DEFAULT, #name)); \
    if (shim.name == nullptr) {                                                                                   \
        return "deformkit: this process has not loaded PyTorch 2.10 or newer: there is no " #name;                \
    }
    DEFORMKIT_TORCH_SHIMS(SHIM)
#undef SHIM
    return nullptr;
}

void require(int32_t error) {
    if (error != 0) {
        throw std::runtime_error("deformkit: a call of PyTorch's failed");
    }
}

struct NumberType {
    int32_t (*Shim::*torch)();
    DLDataType dlpack;
};

constexpr NumberType kNumberTypes[] = {
    {&Shim::aoti_torch_dtype_float32, {kDLFloat, 32, 1}},   {&Shim::aoti_torch_dtype_float16, {kDLFloat, 16, 1}},
    {&Shim::aoti_torch_dtype_bfloat16, {kDLBfloat, 16, 1}}, {&Shim::aoti_torch_dtype_float64, {kDLFloat, 64, 1}},
    {&Shim::aoti_torch_dtype_int64, {kDLInt, 64, 1}},       {&Shim::aoti_torch_dtype_int32, {kDLInt, 32, 1}},
    {&Shim::aoti_torch_dtype_int16, {kDLInt, 16, 1}},       {&Shim::aoti_torch_dtype_int8, {kDLInt, 8, 1}},
};

/// A tensor in host memory, owned.
class View {
public:
    View() = default;
    explicit View(Tensor tensor) : tensor_(tensor) {
        int64_t ndim;
        int32_t type;
        require(shim.aoti_torch_get_dim(tensor, &ndim));
        require(shim.aoti_torch_get_dtype(tensor, &type));
        require(shim.aoti_torch_get_data_ptr(tensor, &view_.data));
        require(shim.aoti_torch_get_sizes(tensor, &view_.shape));
        require(shim.aoti_torch_get_strides(tensor, &view_.strides));
        view_.ndim = static_cast<int32_t>(ndim);
        view_.device = {kDLCPU, 0};
        view_.dtype = {kDLOpaqueHandle, 0, 1};  // of a type that is not listed, which the library refuses
        for (const NumberType &number : kNumberTypes) {
            if ((shim.*number.torch)() == type) {
                view_.dtype = number.dlpack;
            }
        }
        type_ = type;
    }
    View(View &&other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)), view_(other.view_), type_(other.type_) {}
    View &operator=(View &&) = delete;
    ~View() {
        if (tensor_ != nullptr) {
            shim.aoti_torch_delete_tensor_object(tensor_);
        }
    }

    /// Dense, and of this one's type.
    View make(const int64_t *shape, int32_t ndim) const {
        std::array<int64_t, 8> strides;
        int64_t stride = 1;
        for (int32_t i = ndim; i-- > 0;) {
            strides[i] = stride;
            stride *= shape[i] == 0 ? 1 : shape[i];
        }
        Tensor tensor;
        require(
            shim.aoti_torch_empty_strided(ndim, shape, strides.data(), type_, shim.aoti_torch_device_type_cpu(), 0, &tensor));
        return View(tensor);
    }
    View make_like() const { return make(view_.shape, view_.ndim); }

    DLTensor *get() { return tensor_ == nullptr ? nullptr : &view_; }
    int32_t ndim() const { return view_.ndim; }
    int64_t shape(int i) const { return view_.shape[i]; }
    Value release() { return reinterpret_cast<Value>(std::exchange(tensor_, nullptr)); }

private:
    Tensor tensor_ = nullptr;
    DLTensor view_{};
    int32_t type_ = 0;
};

constexpr size_t kInputs = 5;
using Inputs = std::array<View, kInputs>;

Tensor tensor_of(Value value) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch's convention
    return reinterpret_cast<Tensor>(value);
}

template <size_t... I>
Inputs take_inputs(const Value *stack, std::index_sequence<I...>) {
    return {View(tensor_of(stack[I]))...};
}

Inputs take_inputs(const Value *stack) {
    return take_inputs(stack, std::make_index_sequence<kInputs>());
}

/// As many threads as PyTorch uses, if the library can use that many.
class Threads {
public:
    Threads() {
        uint32_t count;
        require(shim.torch_get_num_threads(&count));
        pool_.num_threads = static_cast<int>(std::min<uint32_t>(count, 256));
        before_ = deformkit_set_thread_pool(&pool_);
    }
    Threads(const Threads &) = delete;
    Threads &operator=(const Threads &) = delete;
    ~Threads() { deformkit_set_thread_pool(before_); }

private:
    deformkit_thread_pool pool_{};
    const deformkit_thread_pool *before_;
};

void check(const char *name, deformkit_status status) {
    if (status != DEFORMKIT_OK) {
        throw std::runtime_error(std::string("deformkit::") + name + ": " + deformkit_last_error());
    }
}

struct Msda {
    static constexpr const char *kName = "multi_scale_deformable_attn";
    static constexpr const char *kArguments =
        "Tensor value, Tensor value_spatial_shapes, Tensor value_level_start_index, Tensor sampling_locations, "
        "Tensor attention_weights";
    static constexpr auto kForward = deformkit_msda_forward;
    static constexpr auto kBackward = deformkit_msda_backward;
    static constexpr std::array<size_t, 3> kGradients = {0, 3, 4};
    static constexpr int kNdim = 4;  // of the first input, whose last two axes the output joins if there are four
};

struct DeformableAggregation {
    static constexpr const char *kName = "deformable_aggregation";
    static constexpr const char *kArguments =
        "Tensor feature_maps, Tensor spatial_shape, Tensor scale_start_index, Tensor sample_locations, Tensor weight";
    static constexpr auto kForward = deformkit_deformable_aggregation_forward;
    static constexpr auto kBackward = deformkit_deformable_aggregation_backward;
    static constexpr std::array<size_t, 3> kGradients = {0, 3, 4};
    static constexpr int kNdim = 3;
};

struct GeometricKernelAttention {
    static constexpr const char *kName = "geometric_kernel_attention";
    static constexpr const char *kArguments =
        "Tensor value, Tensor spatial_shapes, Tensor level_start_index, Tensor sampling_locations, Tensor attention_weights";
    static constexpr auto kForward = deformkit_geometric_kernel_attention_forward;
    static constexpr auto kBackward = deformkit_geometric_kernel_attention_backward;
    static constexpr std::array<size_t, 2> kGradients = {0, 4};
    static constexpr int kNdim = 4;
};

template <typename Operator>
void run_forward(Value *stack, uint64_t, uint64_t) {
    Inputs in = take_inputs(stack);
    const auto make_output = [&] {
        if (in[0].ndim() != Operator::kNdim || in[3].ndim() < 2) {
            return View();  // the library finds what is wrong
        }
        const int64_t channels = Operator::kNdim == 4 ? in[0].shape(2) * in[0].shape(3) : in[0].shape(2);
        const int64_t shape[] = {in[0].shape(0), in[3].shape(1), channels};
        return in[0].make(shape, 3);
    };
    View output = make_output();
    const Threads threads;
    check(Operator::kName, Operator::kForward(in[0].get(), in[1].get(), in[2].get(), in[3].get(), in[4].get(), output.get()));
    stack[0] = output.release();
}

template <typename Operator, size_t... I>
void run_backward(Value *stack, std::index_sequence<I...>) {
    Inputs in = take_inputs(stack);
    View grad_output(tensor_of(stack[kInputs]));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch's convention
    const auto flags = reinterpret_cast<List>(stack[kInputs + 1]);
    std::array<bool, sizeof...(I)> wanted{};
    size_t size = 0;
    int32_t error = shim.torch_list_size(flags, &size);
    for (size_t i = 0; i < size && i < wanted.size(); i++) {
        Value flag = 0;
        error |= shim.torch_list_get_item(flags, i, &flag);
        wanted[i] = (flag & 1) != 0;
    }
    shim.torch_delete_list(flags);
    require(error);
    if (size != wanted.size()) {
        throw std::runtime_error(std::string("deformkit::") + Operator::kName + "_backward: wanted: expected " +
                                 std::to_string(wanted.size()) + " flags, got " + std::to_string(size));
    }
    View gradients[] = {wanted[I] ? in[Operator::kGradients[I]].make_like() : View()...};
    const Threads threads;
    check(Operator::kName, Operator::kBackward(in[0].get(), in[1].get(), in[2].get(), in[3].get(), in[4].get(),
                                               grad_output.get(), gradients[I].get()...));
    List results;
    require(shim.torch_new_list_reserve_size(size, &results));
    for (View &gradient : gradients) {
        if (gradient.get() != nullptr) {
            require(shim.torch_list_push_back(results, gradient.release()));
        }
    }
    stack[0] = reinterpret_cast<Value>(results);
}

template <typename Operator>
void run_backward(Value *stack, uint64_t, uint64_t) {
    run_backward<Operator>(stack, std::make_index_sequence<Operator::kGradients.size()>());
}

/// Where the operator is there already, as from Python, it stays as it is.
template <typename Operator>
int32_t add(Library schemas, Library kernels) {
    const std::string name = Operator::kName, arguments = Operator::kArguments;
    const std::pair<std::string, Kernel> passes[] = {
        {name + "(" + arguments + ") -> Tensor", run_forward<Operator>},
        {name + "_backward(" + arguments + ", Tensor grad_output, bool[] wanted) -> Tensor[]", run_backward<Operator>},
    };
    int32_t error = 0;
    for (const auto &[schema, kernel] : passes) {
        if (shim.aoti_torch_library_def(schemas, schema.c_str()) == 0) {
            error |= shim.torch_library_impl(kernels, schema.substr(0, schema.find('(')).c_str(), kernel, kVersion);
        }
    }
    return error;
}

const char *add_all() {
    if (const char *missing = find_shim(); missing != nullptr) {
        return missing;
    }
    // Both live as long as the process does: the library is never unloaded.
    Library schemas, kernels;
    int32_t error = shim.aoti_torch_library_init_fragment("deformkit", __FILE__, __LINE__, &schemas);
    error |= shim.aoti_torch_library_init_impl("deformkit", "CPU", __FILE__, __LINE__, &kernels);
    if (error == 0) {
        error |= add<Msda>(schemas, kernels);
        error |= add<DeformableAggregation>(schemas, kernels);
        error |= add<GeometricKernelAttention>(schemas, kernels);
    }
    return error == 0 ? nullptr : "deformkit: PyTorch did not register the operators";
}

}  // namespace

}  // namespace deformkit::torch

__attribute__((visibility("default"))) const char *deformkit_torch_register() {
    static std::mutex mutex;
    static bool done = false;
    const std::lock_guard<std::mutex> guard(mutex);
    if (!done) {
        const char *error = deformkit::torch::add_all();
        if (error != nullptr) {
            return error;
        }
        done = true;
    }
    return nullptr;
}

namespace {

/// What fails here is told by deformkit_torch_register(), or by PyTorch, which does not know the operators of a model.
[[maybe_unused]] const char *const at_load = deformkit_torch_register();

}  // namespace
