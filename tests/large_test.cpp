// Tensors whose extents, strides or offsets do not fit 32 bits. Memory is reserved, not used, but for the pages touched.
#include <sys/mman.h>

#include "tests/da_case.h"
#include "tests/gka_case.h"
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
MsdaWorkload small_workload(int64_t queries) {
    return {"", 3, queries, 2, 8, {{2, 2}}, 2, Locations::kWide};
}
const DaWorkload kSmallDa = {"", 3, 5, 2, 2, {{2, 2}, {3, 2}}, 2, 16, 0.7};

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

/// Each operand's elements, along one axis at a time.
void check_far_apart(const Problem &problem) {
    for (const Operand &operand : problem.operands()) {
        for (int axis = 0; operand.is_number() && axis < static_cast<int>(operand.shape.size()); axis++) {
            SCOPED_TRACE(operand.name + ", axis " + std::to_string(axis));
            const ProblemTensors tensors(problem);
            GuardedTensor &tensor = tensors[operand.name];
            const std::vector<double> elements = operand.output ? std::vector<double>() : tensor.load_numbers();
            const auto memory = spread(tensor, axis, operand.output ? nullptr : &elements);
            if (memory->data() == nullptr) {
                GTEST_SKIP() << "this system does not reserve that much address space";
            }
            ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
            Outputs outputs;
            for (size_t i = 0; i < tensors.operands.size(); i++) {
                if (tensors.operands[i].output) {
                    outputs.emplace_back();
                    if (tensors.operands[i].name == operand.name) {
                        for_each_offset(tensor.shape(), tensor.strides(),
                                        [&](int64_t offset) { outputs.back().push_back(memory->get(offset)); });
                    } else {
                        outputs.back() = tensors.tensors[i]->load_numbers();
                    }
                }
            }
            EXPECT_TRUE(matches(problem, outputs));
            EXPECT_TRUE(is_substantial(outputs, {0.01, 0.01}));
        }
    }
}

/// Cells of the maps of a problem, and where they begin.
struct CellsOf {
    const std::vector<double> &numbers;
    const std::vector<int64_t> &starts;
    int64_t count, row;
};
CellsOf cells_of(const DaCase &c) {
    return {c.in.feature_maps, c.in.starts, c.in.K, c.in.C};
}
template <typename Case>
CellsOf cells_of(const Case &c) {
    return {c.in.value, c.in.starts, c.in.K, c.in.M * c.in.D};
}

/// The same call with so many keys, the cells of all levels, or all but the first, being the last. Others are zero. The gradient of
/// cells would fill memory: it is left out. Returns the status; OK is checked.
template <typename Case>
deformkit_status call_with_keys(const Case &few, int64_t keys, bool first_is_used = false) {
    const CellsOf cells = cells_of(few);
    SparseMemory memory(keys * cells.row, few.type());
    if (memory.data() == nullptr) {
        ADD_FAILURE() << "this system does not reserve " << keys * cells.row << " elements of address space";
        return DEFORMKIT_OUT_OF_MEMORY;
    }
    const std::vector<Operand> operands = few.operands();
    Layouts layouts;
    if (few.pass() == Pass::kBackward) {
        layouts.left_out.insert(operands[6].name);
    }
    const ProblemTensors tensors(few, layouts);
    const int64_t moved = keys - cells.count;
    for (size_t i = 0; i < cells.numbers.size(); i++) {
        memory.set(moved * cells.row + static_cast<int64_t>(i), cells.numbers[i]);
    }
    DLTensor *value = tensors.arguments[0];
    value->data = memory.data();
    value->byte_offset = 0;
    value->shape[1] = keys;
    value->strides = nullptr;
    std::vector<int64_t> starts = cells.starts;
    for (size_t i = first_is_used ? 1 : 0; i < starts.size(); i++) {
        starts[i] += moved;
    }
    tensors.arguments[2]->data = starts.data();
    const deformkit_status status = tensors.call();
    if (status == DEFORMKIT_OK) {
        Outputs outputs = tensors.outputs();
        if (few.pass() == Pass::kBackward) {
            outputs[0].clear();
        }
        EXPECT_TRUE(matches(few, outputs));
        if (few.pass() == Pass::kBackward) {
            outputs.erase(outputs.begin());
        }
        EXPECT_TRUE(is_substantial(outputs, {0.01, 0.01}));
    } else {
        EXPECT_TRUE(tensors.outputs_untouched()) << "a refused call wrote something";
    }
    return status;
}

/// Heads are groups of deformable aggregation.
template <typename Case>
Case some_cells(Type type, Pass pass, int64_t heads, int64_t channels) {
    if constexpr (std::is_same_v<Case, DaCase>) {
        return {{"", 1, 20, 3, 1, {{3, 4}, {5, 6}}, heads, channels, 0.8}, type, pass};
    } else {
        return {{"", 1, 50, heads, channels, {{3, 4}, {5, 6}}, 4, Locations::kWide}, type, pass};
    }
}

/// 2.2 GB: offsets in bytes do not fit 31 bits.
template <typename Case>
void check_bytes(Pass pass, const Variant &variant) {
    const auto keys = static_cast<int64_t>(8600000 / size_of(variant.type()));
    EXPECT_EQ(call_with_keys(some_cells<Case>(variant.type(), pass, 8, 32), keys), DEFORMKIT_OK) << deformkit_last_error();
}

/// 2^31 elements and more. A device may have to copy them all: there, it is enough to be refused in good order.
template <typename Case>
void check_elements(Pass pass, const Variant &variant) {
    const bool cpu = availability_of(variant.target) == Availability::kYes;
    const deformkit_status status =
        call_with_keys(some_cells<Case>(variant.type(), pass, 8, 32), cpu ? 8400000 : int64_t{1} << 30);
    const bool refused =
        status == DEFORMKIT_DEVICE_FAILURE || status == DEFORMKIT_OUT_OF_MEMORY || status == DEFORMKIT_WRONG_SHAPE;
    EXPECT_TRUE(status == DEFORMKIT_OK || (refused && !cpu)) << status << ": " << deformkit_last_error();
}

/// Copies of 2^31 elements and more: of levels beside each other they are not needed, of others they cannot be addressed.
template <typename Case>
void check_copies(Pass pass, const Variant &variant) {
    const Case c = some_cells<Case>(variant.type(), pass, 1, 1);  // copies fill the channel up to 16
    for (const int64_t keys : {(int64_t{1} << 27) + 64, (int64_t{1} << 28) + 64}) {
        if (availability_of(variant.target) == Availability::kYes) {
            EXPECT_EQ(call_with_keys(c, keys), DEFORMKIT_OK) << deformkit_last_error();
        }
        EXPECT_EQ(call_with_keys(c, keys, /*first_is_used=*/true), DEFORMKIT_WRONG_SHAPE);
        EXPECT_EQ(std::string(deformkit_last_error()).rfind(c.operands()[0].name + ":", 0), 0) << deformkit_last_error();
    }
}

template <typename Case, typename Workload>
void add(const std::vector<Workload> &small) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        const auto add = [&](const std::string &name, const VariantTest::Body &body, Rows rows) {
            for_each_variant<Case>(pass, "Large", name, body, rows);
        };
        for (size_t i = 0; i < small.size(); i++) {
            const Workload workload = small[i];
            add(
                "far_apart_" + std::to_string(i), [=](const Variant &v) { check_far_apart(Case(workload, v.type(), pass)); },
                Rows::kHost);
        }
        add(
            "bytes_beyond_31_bits", [=](const Variant &v) { check_bytes<Case>(pass, v); }, Rows::kAll);
        add(
            "elements_beyond_31_bits", [=](const Variant &v) { check_elements<Case>(pass, v); }, Rows::kAll);
        add(
            "copies_beyond_31_bits", [=](const Variant &v) { check_copies<Case>(pass, v); }, Rows::kHost);
    }
}

const bool registered = [] {
    add<MsdaCase>(std::vector<MsdaWorkload>{small_workload(3), small_workload(99)});
    add<DaCase>(std::vector<DaWorkload>{kSmallDa});
    add<GkaCase>(std::vector<MsdaWorkload>{small_workload(3), small_workload(99)});
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
