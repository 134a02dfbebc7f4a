#include "tests/hostile/call.h"

#include <deformkit/deformkit.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <tuple>

#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"

namespace deformkit::testing {

namespace {

__extension__ typedef __int128 int128;

// A call is a head, and changes to it of a fixed size, so that bytes that are exchanged stay what they are.
constexpr size_t kHeadBytes = 32, kChangeBytes = 11;
constexpr int kMaxAxes = 9;
constexpr int64_t kMaxElements = 1 << 14;           // what a call may look at, and a reference take
constexpr int128 kMaxReach = int128{1} << 36;       // bytes of a tensor that memory is mapped for
constexpr int128 kEndless = int128{1} << 50;        // elements that nothing can look at one by one: the library has to know
constexpr int128 kUnaddressable = int128{1} << 63;  // bytes

int128 saturating_product(int128 a, int128 b) {
    const int128 most = int128{1} << 100;
    return a != 0 && b > most / a ? most : a * b;
}

/// Bytes, and zeros after the last.
class Reader {
public:
    Reader(const uint8_t *bytes, size_t size) : at_(bytes), left_(size) {}

    uint8_t byte() {
        if (left_ == 0) {
            return 0;
        }
        left_--;
        return *at_++;
    }
    int64_t number() {
        uint64_t all = 0;
        for (int i = 0; i < 8; i++) {
            all |= static_cast<uint64_t>(byte()) << (8 * i);
        }
        return static_cast<int64_t>(all);
    }
    size_t left() const { return left_; }

private:
    const uint8_t *at_;
    size_t left_;
};

enum Symbol {
    kB,
    kQ,
    kM,
    kD,
    kL,
    kP,
    kK,
    kN,
    kMD,
    kTwo,
    kSymbols
};  // of deformable aggregation: M groups, Q anchors, L scales, N cameras

enum class Content { kNumbers, kLocations, kShapes, kStarts };

struct Description {
    const char *name;
    std::vector<Symbol> axes, split;
    Content content;
    bool output = false;
};

struct Function {
    const char *name;
    int op;  // 0 MSDA, 1 DA, 2 GKA
    Pass pass;
    std::vector<Description> tensors;
    deformkit_status (*call)(DLTensor *const *);
};

const std::vector<Function> &functions() {
    const auto inputs = [](const char *value, const char *shapes, const char *starts, const char *locations,
                           const char *weights) -> std::vector<Description> {
        return {{value, {kB, kK, kM, kD}, {}, Content::kNumbers},
                {shapes, {kL, kTwo}, {}, Content::kShapes},
                {starts, {kL}, {}, Content::kStarts},
                {locations, {kB, kQ, kM, kL, kP, kTwo}, {}, Content::kLocations},
                {weights, {kB, kQ, kM, kL, kP}, {}, Content::kNumbers}};
    };
    const auto with = [](std::vector<Description> all, std::vector<Description> others) {
        all.insert(all.end(), others.begin(), others.end());
        return all;
    };
    const std::vector<Symbol> rows = {kB, kQ, kMD}, split = {kB, kQ, kM, kD};
    const auto msda = inputs("value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights");
    const std::vector<Description> da = {{"feature_maps", {kB, kK, kMD}, {}, Content::kNumbers},
                                         {"spatial_shape", {kN, kL, kTwo}, {}, Content::kShapes},
                                         {"scale_start_index", {kN, kL}, {}, Content::kStarts},
                                         {"sample_locations", {kB, kQ, kP, kN, kTwo}, {}, Content::kLocations},
                                         {"weights", {kB, kQ, kP, kN, kL, kM}, {}, Content::kNumbers}};
    const Description output = {"output", rows, split, Content::kNumbers, true};
    const Description grad_output = {"grad_output", rows, split, Content::kNumbers};
    const Description da_output = {"output", rows, {}, Content::kNumbers, true},
                      da_grad = {"grad_output", rows, {}, Content::kNumbers};
    const auto gradient = [](const char *name, const Description &of) {
        return Description{name, of.axes, {}, Content::kNumbers, true};
    };
    static const std::vector<Function> all = {
        {"deformkit_msda_forward", 0, Pass::kForward, with(msda, {output}),
         [](DLTensor *const *t) { return deformkit_msda_forward(t[0], t[1], t[2], t[3], t[4], t[5]); }},
        {"deformkit_msda_backward", 0, Pass::kBackward,
         with(msda, {grad_output, gradient("grad_value", msda[0]), gradient("grad_sampling_locations", msda[3]),
                     gradient("grad_attention_weights", msda[4])}),
         [](DLTensor *const *t) { return deformkit_msda_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]); }},
        {"deformkit_deformable_aggregation_forward", 1, Pass::kForward, with(da, {da_output}),
         [](DLTensor *const *t) { return deformkit_deformable_aggregation_forward(t[0], t[1], t[2], t[3], t[4], t[5]); }},
        {"deformkit_deformable_aggregation_backward", 1, Pass::kBackward,
         with(da, {da_grad, gradient("grad_feature_maps", da[0]), gradient("grad_sample_locations", da[3]),
                   gradient("grad_weights", da[4])}),
         [](DLTensor *const *t) {
             return deformkit_deformable_aggregation_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]);
         }},
        {"deformkit_geometric_kernel_attention_forward", 2, Pass::kForward, with(msda, {output}),
         [](DLTensor *const *t) { return deformkit_geometric_kernel_attention_forward(t[0], t[1], t[2], t[3], t[4], t[5]); }},
        {"deformkit_geometric_kernel_attention_backward", 2, Pass::kBackward,
         with(msda, {grad_output, gradient("grad_value", msda[0]), gradient("grad_attention_weights", msda[4])}),
         [](DLTensor *const *t) {
             return deformkit_geometric_kernel_attention_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
         }},
    };
    return all;
}

enum class Change : uint8_t {
    kSymbol,      // an extent, of all tensors that have it
    kExpand,      // its stride becomes 0, of inputs
    kShape,       // an extent of one tensor
    kStride,      // a stride of one tensor
    kAxes,        // the number of axes
    kByteOffset,  //
    kDtype,       // code, bits, lanes
    kData,        // NULL, misaligned, or another tensor's
    kDevice,      //
    kPointer,     // NULL for a tensor, its shape or its strides
    kElement,     // an element's bits
    kLayout,      // a slice with steps, or from the end
    kCount,
};

struct TensorState {
    const Description *what;
    DLTensor dl{};
    std::vector<int64_t> shape, strides;  // of kMaxAxes + 1 entries, whatever ndim says
    std::vector<std::pair<size_t, uint64_t>> elements;
    bool null = false, null_shape = false, null_strides = false, null_data = false;
    int leader = -1;  // the tensor whose memory this one is placed into
    int64_t shift = 0, misaligned = 0;
    bool before = false;  // the guard's side

    int64_t axes() const { return std::clamp<int64_t>(dl.ndim, 0, kMaxAxes); }
    int128 element_bytes() const { return (int128{dl.dtype.bits} * std::max<int128>(dl.dtype.lanes, 1) + 7) / 8; }
    int64_t stride(int axis) const {
        if (!null_strides) {
            return strides[axis];
        }
        uint64_t dense = 1;
        for (int i = static_cast<int>(axes()) - 1; i > axis; i--) {
            dense *= static_cast<uint64_t>(shape[i]);
        }
        return static_cast<int64_t>(dense);
    }
    int128 count() const {
        int128 all = 1;
        for (int i = 0; i < axes(); i++) {
            all = saturating_product(all, std::max<int64_t>(shape[i], 0));
        }
        return all;
    }
    /// First and one past the last byte, from `data` + `byte_offset`.
    std::pair<int128, int128> reach() const {
        if (count() == 0) {
            return {0, 0};
        }
        int128 low = 0, high = 0;
        for (int i = 0; i < axes(); i++) {
            const int128 far = std::clamp(int128{shape[i] - 1} * stride(i), -(int128{1} << 80), int128{1} << 80);
            (far < 0 ? low : high) += far;
        }
        return {low * element_bytes(), (high + 1) * element_bytes()};
    }
    bool is_gone() const { return null || null_shape || null_data; }
};

// As numbers: an enum that holds none of its values is undefined.
void set_device(DLTensor &tensor, int32_t device) {
    std::memcpy(&tensor.device.device_type, &device, sizeof(device));
}
int32_t device_of(const DLTensor &tensor) {
    int32_t device = 0;
    std::memcpy(&device, &tensor.device.device_type, sizeof(device));
    return device;
}

/// Memory with an unmapped page on either side, both right beside the bytes if these are whole pages.
class Region {
public:
    Region(size_t bytes, bool before) : bytes_(bytes) {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        usable_ = (bytes + page - 1) / page * page;
        mapped_bytes_ = usable_ + 2 * page;
        void *mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) {
            return;
        }
        mapped_ = static_cast<uint8_t *>(mapped);
        if (usable_ > 0 && mprotect(mapped_ + page, usable_, PROT_READ | PROT_WRITE) != 0) {
            munmap(mapped_, mapped_bytes_);
            mapped_ = nullptr;
            return;
        }
        first_ = mapped_ + page + (before ? 0 : usable_ - bytes);
    }
    Region(Region &&other) noexcept { *this = std::move(other); }
    Region &operator=(Region &&other) noexcept {
        std::swap(bytes_, other.bytes_), std::swap(usable_, other.usable_), std::swap(mapped_bytes_, other.mapped_bytes_);
        std::swap(mapped_, other.mapped_), std::swap(first_, other.first_);
        return *this;
    }
    ~Region() {
        if (mapped_ != nullptr) {
            munmap(mapped_, mapped_bytes_);
        }
    }
    bool mapped() const { return mapped_ != nullptr; }
    uint8_t *first() const { return first_; }
    size_t bytes() const { return bytes_; }
    bool is_small() const { return bytes_ <= size_t{1} << 20; }
    void make_read_only() {
        if (usable_ > 0) {
            mprotect(mapped_ + (mapped_bytes_ - usable_) / 2, usable_, PROT_READ);
        }
    }

private:
    size_t bytes_ = 0, usable_ = 0, mapped_bytes_ = 0;
    uint8_t *mapped_ = nullptr, *first_ = nullptr;
};

[[noreturn]] void broken(const std::string &promise, const std::string &description) {
    std::fprintf(stderr, "PROMISE BROKEN: %s\n%s", promise.c_str(), description.c_str());
    std::fflush(stderr);
    std::abort();
}

const char *const kTargets[] = {nullptr, "sse41", "avx2", "avx512"};

class HostileCall {
public:
    HostileCall(const uint8_t *bytes, size_t size);
    Outcome run();
    std::string text() const;

private:
    void apply(Change change, uint8_t which, uint8_t axis, int64_t value);
    void rebuild_shapes();
    bool takes_too_long() const;
    bool map_memory();
    void fill(TensorState &tensor);
    uint8_t *at(const TensorState &tensor, int64_t i) const;
    std::vector<std::vector<uint8_t>> snapshot() const;
    bool compare() const;
    template <typename Case>
    bool compare(Case c) const;
    std::vector<double> numbers(size_t tensor) const;
    std::vector<int64_t> indices(size_t tensor) const;

    const Function *function_;
    Type type_;
    std::array<int64_t, kSymbols> symbols_{};
    std::vector<int64_t> levels_;  // H, W of each map
    std::vector<TensorState> tensors_;
    std::vector<Region> regions_;
    std::vector<DLTensor *> arguments_;
    DLDataType location_dtype_{};
    bool split_, pristine_ = true;
    int threads_;
    uint32_t seed_;
    const char *target_;
};

HostileCall::HostileCall(const uint8_t *bytes, size_t size) {
    Reader head(bytes, std::min(size, kHeadBytes));
    function_ = &functions()[head.byte() % functions().size()];
    type_ = kAllTypes[head.byte() % std::size(kAllTypes)];
    const uint8_t flags = head.byte();
    split_ = (flags & 4) != 0;
    threads_ = 1 + (flags >> 3) % 4;
    target_ = kTargets[head.byte() % std::size(kTargets)];
    constexpr DLDataType kLocationTypes[] = {{kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1},
                                             {kDLInt, 8, 1},    {kDLInt, 16, 1},   {kDLInt, 32, 1},   {kDLInt, 64, 1}};
    location_dtype_ = function_->op == 2 ? kLocationTypes[head.byte() % 8] : (head.byte(), dtype_of(type_));
    seed_ = head.byte() + 1u;
    const uint8_t left_out = head.byte(), guards = head.byte();
    const auto extent = [&] {
        const int64_t b = head.byte();
        return b < 192 ? b % 5 : b < 248 ? b % 18 : b % 70;
    };
    for (Symbol symbol : {kB, kQ, kM, kD, kL, kP, kN}) {
        symbols_[symbol] = extent();
    }
    symbols_[kL] = std::min<int64_t>(symbols_[kL], 8);
    symbols_[kN] = function_->op == 1 ? std::min<int64_t>(symbols_[kN], 3) : 1;
    symbols_[kB] = std::min<int64_t>(symbols_[kB], 4);
    const int64_t more = head.byte();
    symbols_[kTwo] = 2;
    int64_t cells = 0;
    for (int64_t map = 0; map < symbols_[kL] * symbols_[kN]; map++) {
        const uint8_t b = head.byte();
        levels_.push_back(b % 12), levels_.push_back((b / 12 + map) % 12);
        cells += levels_.end()[-1] * levels_.end()[-2];
    }
    symbols_[kK] = std::max<int64_t>(0, cells + (more < 128 ? 0 : more % 5 - 2));
    symbols_[kMD] = symbols_[kM] * symbols_[kD];

    for (size_t i = 0; i < function_->tensors.size(); i++) {
        TensorState &t = tensors_.emplace_back();
        t.what = &function_->tensors[i];
        const bool index = t.what->content == Content::kShapes || t.what->content == Content::kStarts;
        t.dl.dtype = index                                    ? DLDataType{kDLInt, uint8_t(flags >> (i - 1) & 1 ? 32 : 64), 1}
                     : t.what->content == Content::kLocations ? location_dtype_
                                                              : dtype_of(type_);
        t.dl.device = {kDLCPU, 0};
        t.before = (guards >> i % 8 & 1) != 0;
        t.null = t.what->output && function_->pass == Pass::kBackward && (left_out >> i % 8 & 1) != 0;
        t.shape.assign(kMaxAxes + 1, 1), t.strides.assign(kMaxAxes + 1, 1);
        t.dl.ndim = static_cast<int32_t>((split_ && !t.what->split.empty() ? t.what->split : t.what->axes).size());
    }
    rebuild_shapes();
    Reader changes(bytes + std::min(size, kHeadBytes), size - std::min(size, kHeadBytes));
    for (int i = 0; i < 24 && changes.left() >= kChangeBytes; i++) {
        const auto change = static_cast<Change>(changes.byte() % static_cast<int>(Change::kCount));
        const uint8_t which = changes.byte(), axis = changes.byte();
        apply(change, which, axis, changes.number());
    }
}

void HostileCall::rebuild_shapes() {
    for (TensorState &t : tensors_) {
        const std::vector<Symbol> &axes = split_ && !t.what->split.empty() ? t.what->split : t.what->axes;
        uint64_t stride = 1;
        for (size_t i = axes.size(); i-- > 0;) {
            t.shape[i] = symbols_[axes[i]];
            t.strides[i] = static_cast<int64_t>(stride);
            stride *= static_cast<uint64_t>(std::max<int64_t>(t.shape[i], 1));
        }
    }
}

void HostileCall::apply(Change change, uint8_t which, uint8_t axis, int64_t value) {
    TensorState &t = tensors_[which % tensors_.size()];
    pristine_ = false;
    switch (change) {
        case Change::kSymbol: {
            symbols_[axis % kMD] = value;
            symbols_[kMD] = static_cast<int64_t>(static_cast<uint64_t>(symbols_[kM]) * static_cast<uint64_t>(symbols_[kD]));
            rebuild_shapes();
            break;
        }
        case Change::kExpand:
            for (TensorState &each : tensors_) {
                const std::vector<Symbol> &axes = split_ && !each.what->split.empty() ? each.what->split : each.what->axes;
                for (size_t i = 0; i < axes.size() && !each.what->output; i++) {
                    if (axes[i] == axis % kTwo) {
                        each.strides[i] = 0;
                    }
                }
            }
            break;
        case Change::kShape:
            t.shape[axis % kMaxAxes] = value;
            break;
        case Change::kStride:
            t.strides[axis % kMaxAxes] = value;
            break;
        case Change::kAxes:
            t.dl.ndim = static_cast<int32_t>(value);
            break;
        case Change::kByteOffset:
            t.dl.byte_offset = static_cast<uint64_t>(value);
            break;
        case Change::kDtype:
            t.dl.dtype = {static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8), static_cast<uint16_t>(value >> 16)};
            break;
        case Change::kData:
            if (axis % 3 == 0) {
                t.null_data = true;
            } else if (axis % 3 == 1) {
                t.misaligned = value & 15;
            } else if (const int leader = static_cast<int>(value & 15) % static_cast<int>(tensors_.size());
                       leader != which % static_cast<int>(tensors_.size()) && tensors_[leader].leader < 0) {
                bool leads = false;
                for (const TensorState &each : tensors_) {
                    leads |= each.leader == which % static_cast<int>(tensors_.size());
                }
                if (!leads) {
                    t.leader = leader;
                    t.shift = static_cast<int16_t>(value >> 8);
                }
            }
            break;
        case Change::kDevice:
            set_device(t.dl, static_cast<int32_t>(value & 31));
            t.dl.device.device_id = static_cast<int32_t>(value >> 32);
            break;
        case Change::kPointer:
            (axis % 3 == 0 ? t.null : axis % 3 == 1 ? t.null_shape : t.null_strides) = true;
            break;
        case Change::kElement:
            t.elements.emplace_back(axis, static_cast<uint64_t>(value));
            break;
        case Change::kLayout:
            if (axis & 1) {
                t.strides[axis / 2 % kMaxAxes] = static_cast<int64_t>(-static_cast<uint64_t>(t.strides[axis / 2 % kMaxAxes]));
            } else {
                for (int64_t i = 0; i <= axis / 2 % kMaxAxes; i++) {
                    t.strides[i] = static_cast<int64_t>(static_cast<uint64_t>(t.strides[i]) * (1 + (value & 3)));
                }
            }
            break;
        case Change::kCount:
            break;
    }
}

bool HostileCall::takes_too_long() const {
    int128 product = 1;
    for (int symbol = 0; symbol < kMD; symbol++) {
        if (symbol != kK) {
            product = saturating_product(product, std::max<int64_t>(symbols_[symbol], 1));
        }
    }
    const auto between = [](int128 work) { return work > kMaxElements && work < kEndless; };
    if (between(product)) {
        return true;
    }
    for (const TensorState &t : tensors_) {
        const int128 count = t.count();
        if (t.is_gone()) {
            continue;
        }
        // An output without end is written for as long as it takes, if there may be such memory.
        const auto [low, high] = t.reach();
        const bool addressable = high - low < kUnaddressable;
        if (between(count) || (t.what->output && count >= kEndless && addressable)) {
            return true;
        }
        if (count > 0 && high - low > kMaxReach && addressable) {
            return true;
        }
    }
    return false;
}

bool HostileCall::map_memory() {
    const size_t n = tensors_.size();
    for (size_t i = 0; i < n; i++) {
        regions_.emplace_back(0, false);
        // Only what can be mapped shares memory.
        TensorState &t = tensors_[i];
        for (const TensorState *of : {&t, t.leader < 0 ? &t : &tensors_[t.leader]}) {
            const auto [low, high] = of->reach();
            t.leader = high - low > kMaxReach ? -1 : t.leader;
        }
    }
    for (size_t i = 0; i < n; i++) {
        TensorState &leader = tensors_[i];
        if (leader.leader >= 0) {
            continue;
        }
        int128 low = 0, high = 0;
        std::tie(low, high) = leader.reach();
        for (const TensorState &t : tensors_) {
            if (t.leader == static_cast<int>(i)) {
                const auto [its_low, its_high] = t.reach();
                low = std::min(low, its_low + t.shift);
                high = std::max(high, its_high + t.shift);
            }
        }
        const bool unaddressable = high - low > kMaxReach;
        // Misaligned elements: no alignment of the region's end.
        const int128 bytes = unaddressable ? 0 : high - low + leader.misaligned;
        regions_[i] = Region(static_cast<size_t>(bytes), leader.before);
        if (!regions_[i].mapped()) {
            return false;
        }
        uint8_t *origin = regions_[i].first() + (leader.before ? leader.misaligned : 0);
        const auto place = [&](TensorState &t, int64_t shift) {
            const uint64_t address = reinterpret_cast<uint64_t>(origin) - (unaddressable ? 0 : static_cast<uint64_t>(low)) +
                                     static_cast<uint64_t>(shift) - t.dl.byte_offset;
            t.dl.data = t.null_data ? nullptr : reinterpret_cast<void *>(address);
        };
        place(leader, 0);
        for (TensorState &t : tensors_) {
            if (t.leader == static_cast<int>(i)) {
                place(t, t.shift);
            }
        }
    }
    for (TensorState &t : tensors_) {
        t.dl.shape = t.null_shape ? nullptr : t.shape.data();
        t.dl.strides = t.null_strides ? nullptr : t.strides.data();
        fill(t);
        arguments_.push_back(t.null ? nullptr : &t.dl);
    }
    for (size_t i = 0; i < n; i++) {
        bool input = !tensors_[i].what->output;
        for (const TensorState &t : tensors_) {
            input &= t.leader != static_cast<int>(i) || !t.what->output;
        }
        if (input && tensors_[i].leader < 0) {
            regions_[i].make_read_only();
        }
    }
    return true;
}

/// The i-th element, row-major.
uint8_t *HostileCall::at(const TensorState &t, int64_t i) const {
    uint64_t offset = 0;
    for (int64_t axis = t.axes() - 1; axis >= 0; axis--) {
        offset += static_cast<uint64_t>(i % t.shape[axis]) * static_cast<uint64_t>(t.stride(static_cast<int>(axis)));
        i /= t.shape[axis];
    }
    const auto address = reinterpret_cast<uint64_t>(t.dl.data) + t.dl.byte_offset;
    return reinterpret_cast<uint8_t *>(address + offset * static_cast<uint64_t>(t.element_bytes()));
}

bool is_storage(DLDataType dtype) {
    return dtype.lanes == 1 && ((dtype.code == kDLFloat && (dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64)) ||
                                (dtype.code == kDLBfloat && dtype.bits == 16));
}

void HostileCall::fill(TensorState &t) {
    const auto [low, high] = t.reach();
    if (t.null_data || high - low > kMaxReach) {
        return;
    }
    const auto count = static_cast<int64_t>(std::min<int128>(t.count(), kMaxElements));
    const auto bytes = static_cast<size_t>(t.element_bytes());
    std::minstd_rand random(seed_ * 977 + static_cast<uint32_t>(&t - tensors_.data()));
    int64_t cells = 0;
    std::vector<int64_t> starts;
    for (size_t i = 0; i + 1 < levels_.size(); i += 2) {
        starts.push_back(cells);
        cells += levels_[i] * levels_[i + 1];
    }
    for (int64_t i = 0; i < count; i++) {
        if (t.what->output) {
            std::memset(at(t, i), GuardedBuffer::kPoison, std::min<size_t>(bytes, 8));
            continue;
        }
        uint8_t element[8] = {};
        const double unit = static_cast<double>(random()) / 2147483648.0;
        int64_t integer = static_cast<int64_t>(unit * 20) - 4;
        if (t.what->content == Content::kShapes) {
            integer = levels_.empty() ? 3 : levels_[i % levels_.size()];
        } else if (t.what->content == Content::kStarts) {
            integer = starts.empty() ? 0 : starts[i % starts.size()];
        }
        if (is_storage(t.dl.dtype)) {
            const bool location = t.what->content == Content::kLocations;
            const double number = !location ? 2 * unit - 1 : function_->op == 2 ? 16 * unit - 2 : 1.4 * unit - 0.2;
            encode(type_of(t.dl.dtype), number, element);
        } else {
            std::memcpy(element, &integer, sizeof(integer));
        }
        std::memcpy(at(t, i), element, std::min(bytes, sizeof(element)));
    }
    for (const auto &[index, bits] : t.elements) {
        if (count > 0 && !t.what->output) {
            std::memcpy(at(t, static_cast<int64_t>(index) % count), &bits, std::min(bytes, sizeof(bits)));
        }
    }
}

std::vector<std::vector<uint8_t>> HostileCall::snapshot() const {
    std::vector<std::vector<uint8_t>> all;
    for (const Region &region : regions_) {
        all.emplace_back();
        if (region.is_small() && region.bytes() > 0) {
            all.back().assign(region.first(), region.first() + region.bytes());
        }
    }
    return all;
}

Outcome HostileCall::run() {
    if (takes_too_long() || !map_memory()) {
        return Outcome::kSkipped;
    }
    if (deformkit_set_target(target_) != DEFORMKIT_OK || deformkit_set_num_threads(threads_) != DEFORMKIT_OK) {
        broken("targets and numbers of threads can be set", text());
    }
    const auto before = snapshot();
    const deformkit_status status = function_->call(arguments_.data());
    const std::string said = deformkit_last_error();
    const auto complain = [&](const std::string &promise) {
        broken(promise + " (status " + std::to_string(status) + ": " + said + ")", text());
    };
    if (status == DEFORMKIT_OK) {
        const auto after = snapshot();
        // The same once more, from the start, with another number of threads.
        for (size_t i = 0; i < regions_.size(); i++) {
            if (!before[i].empty() && before[i] != after[i]) {
                std::memcpy(regions_[i].first(), before[i].data(), before[i].size());
            }
        }
        deformkit_set_num_threads(threads_ == 1 ? 4 : 1);
        if (function_->call(arguments_.data()) != DEFORMKIT_OK || snapshot() != after) {
            complain("the number of threads changes nothing");
        }
        return compare() ? Outcome::kCompared : Outcome::kOk;
    }
    if (snapshot() != before) {
        complain("a refused call writes nothing");
    }
    if (pristine_ && status != DEFORMKIT_NO_VARIANT) {
        complain("a proper call is not refused");
    }
    switch (status) {
        case DEFORMKIT_NULL_ARGUMENT:
        case DEFORMKIT_WRONG_DTYPE:
        case DEFORMKIT_WRONG_SHAPE:
        case DEFORMKIT_WRONG_DEVICE:
        case DEFORMKIT_OVERLAPPING_OUTPUT: {
            bool named = false;
            for (const TensorState &t : tensors_) {
                named |= said.rfind(std::string(t.what->name) + ":", 0) == 0;
            }
            if (!named) {
                complain("a refusal names the argument");
            }
            break;
        }
        case DEFORMKIT_OUT_OF_MEMORY: {
            int128 most = 0;
            for (const TensorState &t : tensors_) {
                most = std::max(most, t.is_gone() ? 0 : t.count());
            }
            if (most <= kMaxElements) {
                complain("small calls need little memory");
            }
            break;
        }
        case DEFORMKIT_NO_VARIANT:
            if (target_ == nullptr) {
                complain("some variant runs everywhere");
            }
            break;
        default:
            complain("a refusal has a proper status");
    }
    return Outcome::kRefused;
}

std::vector<double> HostileCall::numbers(size_t tensor) const {
    const TensorState &t = tensors_[tensor];
    std::vector<double> all(static_cast<size_t>(t.count()));
    for (size_t i = 0; i < all.size(); i++) {
        const uint8_t *from = at(t, static_cast<int64_t>(i));
        if (t.dl.dtype.code == kDLInt) {
            int64_t integer = 0;
            std::memcpy(&integer, from, t.dl.dtype.bits / 8);
            const int unused = 64 - t.dl.dtype.bits;
            all[i] = static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(integer) << unused) >> unused);
        } else {
            all[i] = decode(type_of(t.dl.dtype), from);
        }
    }
    return all;
}

std::vector<int64_t> HostileCall::indices(size_t tensor) const {
    const TensorState &t = tensors_[tensor];
    std::vector<int64_t> all(static_cast<size_t>(t.count()));
    for (size_t i = 0; i < all.size(); i++) {
        const uint8_t *from = at(t, static_cast<int64_t>(i));
        int32_t narrow = 0;
        std::memcpy(t.dl.dtype.bits == 32 ? static_cast<void *>(&narrow) : &all[i], from, t.dl.dtype.bits / 8);
        all[i] = t.dl.dtype.bits == 32 ? narrow : all[i];
    }
    return all;
}

template <typename Case>
bool HostileCall::compare(Case c) const {
    // What has several right results: numbers that overflow or vanish, and locations between cells beside what is not finite.
    bool finite = true;
    for (const auto &[name, all] : c.numbers()) {
        const bool locations = name.find("locations") != std::string::npos;
        for (double x : *all) {
            finite &= locations || std::isfinite(x);
            if (!locations && std::isfinite(x) && x != 0 && (std::fabs(x) > 1e3 || std::fabs(x) < 1e-3)) {
                return false;
            }
            if (locations && std::isfinite(x) && x != 0 && (std::fabs(x) > 1e30 || std::fabs(x) < 1e-30)) {
                return false;
            }
        }
    }
    if constexpr (!std::is_same_v<Case, GkaCase>) {
        Case moved = c;
        moved.avoid_ties();
        const bool ties = moved.in.locations != c.in.locations;
        if (ties && (!finite || std::is_same_v<Case, DaCase>)) {
            return false;
        }
    }
    const std::vector<Expected> expected = c.expected();
    size_t o = 0;
    for (size_t i = 0; i < tensors_.size(); i++) {
        if (!tensors_[i].what->output) {
            continue;
        }
        const Expected &want = expected.at(o++);
        if (tensors_[i].null) {
            continue;
        }
        const std::vector<double> got = numbers(i);
        for (size_t e = 0; e < got.size(); e++) {
            if (!want.allows(static_cast<int64_t>(e), got[e], type_)) {
                std::ostringstream promise;
                promise << tensors_[i].what->name << " element " << e << " is " << got[e] << ", the reference "
                        << want.values[e] << ", tolerance " << want.tolerances[e];
                broken(promise.str(), text());
            }
        }
    }
    return true;
}

/// False where the reference does not say, or would take too long.
bool HostileCall::compare() const {
    int128 work = 0;
    for (const TensorState &t : tensors_) {
        if (t.null && t.what->output) {
            continue;
        }
        if (t.leader >= 0 || t.count() > kMaxElements || t.dl.dtype.lanes != 1) {
            return false;  // inputs that lie in an output's memory may be gone
        }
        for (int axis = 0; axis < t.axes(); axis++) {
            if (t.shape[axis] > kMaxElements) {
                return false;  // empty otherwise
            }
        }
    }
    for (const Region &region : regions_) {
        if (!region.is_small()) {
            return false;
        }
    }
    const auto shape = [&](size_t i, int axis) { return tensors_[i].shape[axis]; };
    const Pass pass = function_->pass;
    const std::vector<int64_t> shapes = indices(1), starts = indices(2);
    for (const auto *all : {&shapes, &starts}) {
        for (int64_t index : *all) {
            if (index > int64_t{1} << 31 || index < -(int64_t{1} << 31)) {
                return false;
            }
        }
    }
    const std::vector<double> gradient = pass == Pass::kBackward ? numbers(5) : std::vector<double>();
    if (function_->op == 1) {
        work = tensors_[4].count() * shape(0, 2);
        if (work > 200000) {
            return false;
        }
        DaCase c = DaCase::smallest(type_, pass);
        c.in = {shape(0, 0), shape(0, 1), shape(0, 2), shape(3, 1), shape(3, 2), shape(1, 0), shape(1, 1),
                shape(4, 5), numbers(0),  numbers(3),  numbers(4),  shapes,      starts,      gradient};
        return !c.is_trivial() && compare(c);
    }
    work = tensors_[4].count() * shape(0, 3);
    if (work > 200000) {
        return false;
    }
    const MsdaReferenceInputs in = {shape(0, 0), shape(0, 1), shape(0, 2), shape(0, 3), shape(3, 1), shape(1, 0), shape(3, 4),
                                    numbers(0),  numbers(3),  numbers(4),  shapes,      starts,      gradient};
    if (function_->op == 0) {
        MsdaCase c = MsdaCase::smallest(type_, pass);
        c.in = in;
        return !c.is_trivial() && compare(c);
    }
    GkaCase c = GkaCase::smallest(type_, pass);
    c.in = in;
    c.set_location_dtype(tensors_[3].dl.dtype);
    return !c.is_trivial() && compare(c);
}

std::string HostileCall::text() const {
    std::ostringstream out;
    out << function_->name << ", target " << (target_ == nullptr ? "any" : target_) << ", " << threads_ << " threads\n";
    const auto list = [&](const std::vector<int64_t> &all, int64_t n) {
        out << "[";
        for (int64_t i = 0; i < n; i++) {
            out << (i > 0 ? ", " : "") << all[i];
        }
        out << "]";
    };
    for (const TensorState &t : tensors_) {
        out << "  " << t.what->name << ": ";
        if (t.null) {
            out << "NULL\n";
            continue;
        }
        out << "type " << int{t.dl.dtype.code} << "." << int{t.dl.dtype.bits} << "x" << t.dl.dtype.lanes << ", ndim "
            << t.dl.ndim << ", shape ";
        t.null_shape ? void(out << "NULL") : list(t.shape, t.axes());
        out << ", strides ";
        t.null_strides ? void(out << "NULL") : list(t.strides, t.axes());
        out << ", offset " << t.dl.byte_offset << ", device " << device_of(t.dl);
        if (t.null_data) {
            out << ", data NULL";
        }
        if (t.leader >= 0) {
            out << ", in the memory of " << tensors_[t.leader].what->name << " at byte " << t.shift;
        }
        if (t.misaligned != 0) {
            out << ", misaligned by " << t.misaligned;
        }
        for (const auto &[index, bits] : t.elements) {
            out << ", element " << index << " = 0x" << std::hex << bits << std::dec;
        }
        out << "\n";
    }
    return out.str();
}

}  // namespace

Outcome call_from(const uint8_t *bytes, size_t size) {
    return HostileCall(bytes, size).run();
}

std::string describe(const uint8_t *bytes, size_t size) {
    return HostileCall(bytes, size).text();
}

void mutate(std::vector<uint8_t> &bytes, std::mt19937 &random) {
    const auto below = [&](uint32_t n) { return random() % n; };
    const auto interesting = [&]() -> int64_t {
        const int64_t power = static_cast<int64_t>(uint64_t{1} << below(64));
        switch (below(8)) {
            case 0:
                return below(12);
            case 1:
                return -static_cast<int64_t>(below(12));
            case 2:
                return power;
            case 3:
                return static_cast<int64_t>(static_cast<uint64_t>(power) + below(5) - 2);
            case 4:
                return static_cast<int64_t>(-static_cast<uint64_t>(power) + below(3));
            case 5:
                return std::numeric_limits<int64_t>::max() / (1 + below(64));
            case 6: {  // floats of every kind, and two of them
                const uint32_t kinds[] = {0x7fc00001, 0xffc12345, 0x7f800000, 0xff800000,
                                          0x00000001, 0x80000000, 0x3f000000, 0x3f800000};
                return static_cast<int64_t>(uint64_t{kinds[below(8)]} << 32 | kinds[below(8)]);
            }
            default:
                return static_cast<int64_t>(uint64_t{random()} << 32 | random());
        }
    };
    const size_t changes = bytes.size() > kHeadBytes ? (bytes.size() - kHeadBytes) / kChangeBytes : 0;
    const auto change_at = [&](size_t i) { return bytes.begin() + static_cast<std::ptrdiff_t>(kHeadBytes + i * kChangeBytes); };
    bytes.resize(std::max(bytes.size(), kHeadBytes));
    switch (below(changes > 0 ? 6 : 3)) {
        case 0:
        case 1:
            bytes[below(kHeadBytes)] = static_cast<uint8_t>(random());
            break;
        case 2: {
            if (changes >= 24) {
                break;
            }
            uint8_t change[kChangeBytes] = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random()),
                                            static_cast<uint8_t>(random())};
            const int64_t value = interesting();
            std::memcpy(change + 3, &value, sizeof(value));
            bytes.insert(change_at(changes), change, change + kChangeBytes);
            break;
        }
        case 3: {
            const auto at = change_at(below(static_cast<uint32_t>(changes)));
            bytes.erase(at, at + kChangeBytes);
            break;
        }
        case 4: {
            const int64_t value = interesting();
            std::memcpy(&*change_at(below(static_cast<uint32_t>(changes))) + 3, &value, sizeof(value));
            break;
        }
        default:
            *(change_at(below(static_cast<uint32_t>(changes))) + below(kChangeBytes)) = static_cast<uint8_t>(random());
    }
}

}  // namespace deformkit::testing
