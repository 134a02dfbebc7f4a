// Tensors whose extents, strides or offsets do not fit 32 bits. Memory is reserved, not used, but for the pages touched.
#include <sys/mman.h>

#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 1000;  // elements

/// Zeros that take no memory until they are written.
class SparseMemory {
public:
    SparseMemory(int64_t count, Type type) : type_(type), bytes_(count * size_of(type)) {
        void *mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data_ = mapped == MAP_FAILED ? nullptr : static_cast<unsigned char *>(mapped);
    }
    SparseMemory(const SparseMemory &) = delete;
    ~SparseMemory() {
        if (data_ != nullptr) {
            munmap(data_, bytes_);
        }
    }
    void *data() const { return data_; }
    void set(int64_t at, double number) { encode(type_, number, data_ + at * size_of(type_)); }
    double get(int64_t at) const { return decode(type_, data_ + at * size_of(type_)); }

private:
    Type type_;
    size_t bytes_;
    unsigned char *data_;
};

/// With few and with many queries for its cells, for which kernels may go different ways.
MsdaCase small_case(int64_t queries, Type type) {
    return {{"", 3, queries, 2, 8, {{2, 2}}, 2, Locations::kWide}, type, Pass::kForward};
}

/// The tensor's elements move far apart along one axis.
std::unique_ptr<SparseMemory> spread(GuardedTensor &tensor, int axis, const std::vector<double> *elements) {
    const std::vector<int64_t> &shape = tensor.shape();
    auto memory = std::make_unique<SparseMemory>(kFar * shape[axis], type_of(tensor.dl()->dtype));
    if (memory->data() == nullptr) {
        return memory;
    }
    DLTensor *dl = tensor.dl();
    dl->strides[axis] = kFar;
    dl->data = memory->data();
    if (elements != nullptr) {
        size_t i = 0;
        for_each_offset(shape, tensor.strides(), [&](int64_t offset) { memory->set(offset, (*elements)[i++]); });
    }
    return memory;
}

void check_far_apart(const MsdaCase &c, const std::string &name) {
    const auto axes = static_cast<int>(ProblemTensors(c)[name].shape().size());
    for (int axis = 0; axis < axes; axis++) {
        const ProblemTensors tensors(c);
        GuardedTensor &tensor = tensors[name];
        const bool is_output = name == "output";
        const std::vector<double> elements = is_output ? std::vector<double>() : tensor.load_numbers();
        const auto memory = spread(tensor, axis, is_output ? nullptr : &elements);
        if (memory->data() == nullptr) {
            GTEST_SKIP() << "this system does not reserve that much address space";
        }
        ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << "axis " << axis << ": " << deformkit_last_error();
        Outputs outputs = {{}};
        if (is_output) {
            for_each_offset(tensor.shape(), tensor.strides(),
                            [&](int64_t offset) { outputs[0].push_back(memory->get(offset)); });
        } else {
            outputs = tensors.outputs();
        }
        EXPECT_TRUE(matches(c, outputs)) << "axis " << axis;
        EXPECT_TRUE(is_substantial(outputs, usual_substance(c)));
    }
}

/// A dense value of so many keys, of which only the last are anything but zero. Returns the status; OK is checked.
deformkit_status call_with_keys(int64_t keys, Type type) {
    constexpr int64_t kRow = 256;
    SparseMemory memory(keys * kRow, type);
    if (memory.data() == nullptr) {
        ADD_FAILURE() << "this system does not reserve " << keys * kRow << " elements of address space";
        return DEFORMKIT_OUT_OF_MEMORY;
    }
    const MsdaCase few({"", 1, 50, 8, 32, {{3, 4}, {5, 6}}, 4, Locations::kWide}, type, Pass::kForward);
    const ProblemTensors tensors(few);
    for (size_t i = 0; i < few.in.value.size(); i++) {
        memory.set((keys - few.in.K) * kRow + static_cast<int64_t>(i), few.in.value[i]);
    }
    DLTensor *value = tensors["value"].dl();
    value->data = memory.data();
    value->shape[1] = keys;
    value->strides = nullptr;
    int64_t starts[] = {few.in.starts[0] + keys - few.in.K, few.in.starts[1] + keys - few.in.K};
    tensors["level_start_index"].dl()->data = starts;
    const deformkit_status status = tensors.call();
    if (status == DEFORMKIT_OK) {
        EXPECT_TRUE(matches(few, tensors.outputs()));
    } else {
        EXPECT_TRUE(tensors.outputs_untouched()) << "a refused call wrote something";
    }
    return status;
}

/// 2.2 GB: offsets in bytes do not fit 31 bits.
void check_bytes(const Variant &variant) {
    const auto keys = static_cast<int64_t>(8600000 / size_of(variant.type()));
    EXPECT_EQ(call_with_keys(keys, variant.type()), DEFORMKIT_OK) << deformkit_last_error();
}

/// 2^31 elements and more. A device may have to copy them all: there, it is enough to be refused in good order.
void check_elements(const Variant &variant) {
    const bool cpu = availability_of(variant.target) == Availability::kYes;
    const deformkit_status status = call_with_keys(cpu ? 8400000 : int64_t{1} << 30, variant.type());
    const bool refused =
        status == DEFORMKIT_DEVICE_FAILURE || status == DEFORMKIT_OUT_OF_MEMORY || status == DEFORMKIT_NO_VARIANT;
    EXPECT_TRUE(status == DEFORMKIT_OK || (refused && !cpu)) << status << ": " << deformkit_last_error();
}

const bool registered = [] {
    const auto add = [](const std::string &name, const VariantTest::Body &body) {
        for_each_variant<MsdaCase>(Pass::kForward, "MsdaLarge", name, body);
    };
    for (const std::string operand : {"value", "sampling_locations", "attention_weights", "output"}) {
        for (int64_t queries : {3, 99}) {
            add(operand + "_far_apart_" + std::to_string(queries) + "_queries",
                [=](const Variant &v) { check_far_apart(small_case(queries, v.type()), operand); });
        }
    }
    add("bytes_beyond_31_bits", check_bytes);
    add("elements_beyond_31_bits", check_elements);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
