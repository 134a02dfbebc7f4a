// Tensors whose extents, strides or offsets do not fit 32 bits. Memory is reserved, not used, but for the pages touched.
#include <sys/mman.h>

#include "tests/msda_case.h"
#include "tests/variants.h"

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
    return make_case({"", 3, queries, 2, 8, {{2, 2}}, 2, Locations::kWide}, type);
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

void check_far_apart(const MsdaCase &c, GuardedTensor MsdaTensors::*member, const std::vector<double> MsdaCase::*elements) {
    const int axes = static_cast<int>((MsdaTensors(c).*member).shape().size());
    for (int axis = 0; axis < axes; axis++) {
        MsdaTensors tensors(c);
        GuardedTensor &tensor = tensors.*member;
        const auto memory = spread(tensor, axis, elements == nullptr ? nullptr : &(c.*elements));
        if (memory->data() == nullptr) {
            GTEST_SKIP() << "this system does not reserve that much address space";
        }
        ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << "axis " << axis << ": " << deformkit_last_error();
        std::vector<double> output;
        if (elements == nullptr) {
            for_each_offset(tensor.shape(), tensor.strides(), [&](int64_t offset) { output.push_back(memory->get(offset)); });
        } else {
            output = tensors.output.load_numbers();
        }
        EXPECT_TRUE(matches_reference(c, output)) << "axis " << axis;
        EXPECT_TRUE(is_substantial(output));
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
    const MsdaCase few = make_case({"", 1, 50, 8, 32, {{3, 4}, {5, 6}}, 4, Locations::kWide}, type);
    MsdaTensors tensors(few);
    for (size_t i = 0; i < few.value.size(); i++) {
        memory.set((keys - few.K) * kRow + static_cast<int64_t>(i), few.value[i]);
    }
    tensors.value.dl()->data = memory.data();
    tensors.value.dl()->shape[1] = keys;
    tensors.value.dl()->strides = nullptr;
    GuardedTensor starts(dtype_of<int64_t>(), {2});
    starts.store<int64_t>({few.starts[0] + keys - few.K, few.starts[1] + keys - few.K});
    const deformkit_status status = deformkit_msda_forward(tensors.value.dl(), tensors.shapes.dl(), starts.dl(),
                                                           tensors.locations.dl(), tensors.weights.dl(), tensors.output.dl());
    if (status == DEFORMKIT_OK) {
        EXPECT_TRUE(matches_reference(few, tensors.output.load_numbers()));
    } else {
        EXPECT_TRUE(tensors.output.all_poison()) << "a refused call wrote something";
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
    struct Argument {
        std::string name;
        GuardedTensor MsdaTensors::*tensor;
        const std::vector<double> MsdaCase::*elements;
    };
    for (const Argument &argument : {Argument{"value", &MsdaTensors::value, &MsdaCase::value},
                                     {"locations", &MsdaTensors::locations, &MsdaCase::locations},
                                     {"weights", &MsdaTensors::weights, &MsdaCase::weights},
                                     {"output", &MsdaTensors::output, nullptr}}) {
        for (int64_t queries : {3, 99}) {
            for_each_msda_forward_variant(
                "Large", argument.name + "_far_apart_" + std::to_string(queries) + "_queries",
                [=](const Variant &v) { check_far_apart(small_case(queries, v.type()), argument.tensor, argument.elements); });
        }
    }
    for_each_msda_forward_variant("Large", "bytes_beyond_31_bits", check_bytes);
    for_each_msda_forward_variant("Large", "elements_beyond_31_bits", check_elements);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
