#include "tests/support/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <numeric>
#include <utility>

namespace deformkit::testing {

GuardedBuffer::GuardedBuffer(size_t bytes, Guard guard) : size_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t usable = (bytes + page - 1) / page * page;
    mapped_bytes_ = usable + 2 * page;
    void *mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        throw std::bad_alloc();
    }
    mapped_ = static_cast<uint8_t *>(mapped);
    uint8_t *first = mapped_ + page;
    if (usable > 0) {
        if (mprotect(first, usable, PROT_READ | PROT_WRITE) != 0) {
            munmap(mapped_, mapped_bytes_);
            throw std::bad_alloc();
        }
        std::memset(first, kPoison, usable);
    }
    data_ = guard == Guard::kAfter ? first + (usable - bytes) : first;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer &&other) noexcept
    : size_(other.size_),
      mapped_bytes_(other.mapped_bytes_),
      mapped_(std::exchange(other.mapped_, nullptr)),
      data_(other.data_) {}

GuardedBuffer::~GuardedBuffer() {
    if (mapped_ != nullptr) {
        munmap(mapped_, mapped_bytes_);
    }
}

bool GuardedBuffer::poison_intact() const {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto poisoned = [](uint8_t byte) { return byte == kPoison; };
    const uint8_t *first = mapped_ + page, *last = mapped_ + mapped_bytes_ - page;
    return std::all_of(first, static_cast<const uint8_t *>(data_), poisoned) &&
           std::all_of(static_cast<const uint8_t *>(data_) + size_, last, poisoned);
}

void GuardedBuffer::make_read_only() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (mapped_bytes_ > 2 * page && mprotect(mapped_ + page, mapped_bytes_ - 2 * page, PROT_READ) != 0) {
        throw std::runtime_error("mprotect failed");
    }
}

std::vector<int64_t> strides_of(const std::vector<int64_t> &shape, const Layout &layout) {
    const int axes = static_cast<int>(shape.size());
    std::vector<int> order = layout.order;
    if (order.empty()) {
        order.resize(axes);
        std::iota(order.begin(), order.end(), 0);
    }
    std::vector<int64_t> strides(axes);
    int64_t stride = 1;
    for (int i = axes - 1; i >= 0; i--) {
        const int axis = order[i];
        if (!layout.expanded.empty() && layout.expanded[axis]) {
            strides[axis] = 0;
            continue;
        }
        stride *= layout.step.empty() ? 1 : layout.step[axis];
        stride += layout.pad.empty() ? 0 : layout.pad[axis];
        strides[axis] = !layout.reversed.empty() && layout.reversed[axis] ? -stride : stride;
        stride *= std::max<int64_t>(shape[axis], 1);
    }
    return strides;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t> &shape) {
    return strides_of(shape, {});
}

int64_t count_of(const std::vector<int64_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

void for_each_offset(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                     const std::function<void(int64_t offset)> &use) {
    if (count_of(shape) == 0) {
        return;
    }
    std::vector<int64_t> index(shape.size(), 0);
    int64_t offset = 0;
    for (;;) {
        use(offset);
        size_t axis = shape.size();
        for (;;) {
            if (axis == 0) {
                return;
            }
            axis--;
            offset += strides[axis];
            if (++index[axis] < shape[axis]) {
                break;
            }
            offset -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

namespace {

/// Lowest and highest offset of an element; {0, -1} if there is none.
std::pair<int64_t, int64_t> range_of(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides) {
    if (count_of(shape) == 0) {
        return {0, -1};
    }
    int64_t lowest = 0, highest = 0;
    for (size_t i = 0; i < shape.size(); i++) {
        const int64_t reach = (shape[i] - 1) * strides[i];
        (reach < 0 ? lowest : highest) += reach;
    }
    return {lowest, highest};
}

size_t bytes_of(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides, size_t element_bytes) {
    const auto [lowest, highest] = range_of(shape, strides);
    return static_cast<size_t>(highest - lowest + 1) * element_bytes;
}

}  // namespace

GuardedTensor::GuardedTensor(DLDataType dtype, std::vector<int64_t> shape, const Layout &layout)
    : shape_(std::move(shape)),
      strides_(strides_of(shape_, layout)),
      lowest_(range_of(shape_, strides_).first),
      element_bytes_((dtype.bits * dtype.lanes + 7) / 8),
      buffer_(bytes_of(shape_, strides_, element_bytes_), layout.guard) {
    if (layout.null_strides && strides_ != dense_strides(shape_)) {
        throw std::invalid_argument("NULL strides are for dense tensors");
    }
    dl_.data = at(0) - layout.byte_offset;
    dl_.device = {kDLCPU, 0};
    dl_.ndim = static_cast<int>(shape_.size());
    dl_.dtype = dtype;
    dl_.shape = shape_.data();
    dl_.strides = layout.null_strides ? nullptr : strides_.data();
    dl_.byte_offset = static_cast<uint64_t>(layout.byte_offset);
}

void GuardedTensor::store_numbers(const std::vector<double> &dense) {
    if (dense.size() != static_cast<size_t>(count_of(shape_))) {
        throw std::invalid_argument("GuardedTensor::store_numbers: another number of elements");
    }
    const Type type = type_of(dl_.dtype);
    size_t i = 0;
    for_each_offset(shape_, strides_, [&](int64_t offset) { encode(type, dense[i++], at(offset)); });
}

std::vector<double> GuardedTensor::load_numbers() const {
    const Type type = type_of(dl_.dtype);
    std::vector<double> dense(count_of(shape_));
    size_t i = 0;
    for_each_offset(shape_, strides_, [&](int64_t offset) { dense[i++] = decode(type, at(offset)); });
    return dense;
}

bool GuardedTensor::all_poison() const {
    const uint8_t *first = buffer_.data();
    return buffer_.poison_intact() &&
           std::all_of(first, first + buffer_.size(), [](uint8_t byte) { return byte == GuardedBuffer::kPoison; });
}

bool GuardedTensor::surroundings_intact() const {
    if (!buffer_.poison_intact()) {
        return false;
    }
    std::vector<bool> element(buffer_.size() / element_bytes_, false);
    for_each_offset(shape_, strides_, [&](int64_t offset) { element[offset - lowest_] = true; });
    for (size_t i = 0; i < element.size(); i++) {
        const uint8_t *bytes = buffer_.data() + i * element_bytes_;
        if (!element[i] &&
            !std::all_of(bytes, bytes + element_bytes_, [](uint8_t byte) { return byte == GuardedBuffer::kPoison; })) {
            return false;
        }
    }
    return true;
}

int64_t GuardedTensor::elements_in_poison() const {
    int64_t count = 0;
    for_each_offset(shape_, strides_, [&](int64_t offset) {
        const uint8_t *bytes = at(offset);
        count += std::all_of(bytes, bytes + element_bytes_, [](uint8_t byte) { return byte == GuardedBuffer::kPoison; });
    });
    return count;
}

}  // namespace deformkit::testing
