#include "runtime/cpu/da_cells.h"

#include <algorithm>

#include "runtime/tensor/buffer.h"

namespace deformkit {

DaCells::DaCells(CallMemory &memory, const DaInputs &a, int64_t count)
    : table_(reserve_levels(memory, a.N * a.S)), cells_(memory, slice(a.feature_maps, 0, 0, count), {}, {0, 1, 2, 3}) {}

LevelTable DaCells::make_table(const DaInputs &a) {
    return make_level_table(
        table_, a.N * a.S, [&](int64_t map) { return a.level(map); }, 1, 1, a.K);
}

int64_t batches_at_once(const DaInputs &a, const Tensor &output, int64_t bytes) {
    bool in_place = dense(a.feature_maps, 3) && a.D % kChannelMultiple == 0;
    bool at_once = true;
    for (const Tensor *tensor : {&a.feature_maps, &a.sample_locations, &a.weights, &output}) {
        in_place &= fits_buffer(*tensor);
        at_once &= items_addressable(*tensor);
    }
    if (!at_once) {
        return 1;
    }
    const int64_t batch_bytes =
        std::max<int64_t>(1, product({a.K, a.G, round_up(a.D, kChannelMultiple), a.feature_maps.element_bytes()}));
    return in_place ? std::max<int64_t>(a.B, 1) : std::clamp<int64_t>(bytes / batch_bytes, 1, std::max<int64_t>(a.B, 1));
}

}  // namespace deformkit
