#include "generators/shared/device.h"

#include <cstdint>

#include "generators/shared/contract.h"
#include "generators/shared/storage.h"

namespace deformkit {

using namespace Halide;

Expr widen_bits(Type storage, const Expr &bits, const Target &target) {
    return storage.bits() == 16 ? widen(reinterpret(storage, bits), target) : bits;
}

Expr round_to_bits(Type storage, const Expr &result, const Target &target) {
    return reinterpret(bits_type(storage), round_to_storage(storage, result, target));
}

Func channels_of_words(Type storage, const Func &words, const Target &target) {
    if (storage.bits() != 16) {
        return words;
    }
    const Expr word = words(_), low = Internal::make_const(UInt(32), 0xffff);
    Func wide(words.name() + "_wide");
    if (storage.is_bfloat()) {
        wide(_) = Tuple(reinterpret<float>(word << 16), reinterpret<float>(word & ~low));
    } else {
        wide(_) = Tuple(widen_bits(storage, cast<uint16_t>(word & low), target),
                        widen_bits(storage, cast<uint16_t>(word >> 16), target));
    }
    return wide;
}

Expr word_of_channels(Type storage, const std::vector<Expr> &channels, const Target &target) {
    const auto half = [&](int i) { return cast<uint32_t>(round_to_bits(storage, channels[i], target)); };
    return storage.bits() == 16 ? half(0) | half(1) << 16 : round_to_storage(storage, channels[0], target);
}

Func up_to(const Expr &num_channels, const Func &rows) {
    std::vector<Var> axes = rows.args();
    std::vector<Expr> at(axes.begin(), axes.end());
    at[0] = min(axes[0], num_channels - 1);
    Func clamped("clamped");
    clamped(axes) = rows(at);
    return clamped;
}

Expr level_row(const LevelTensors &tensors, const std::vector<Expr> &level, const Expr &row) {
    // An index of 64 bits that int32 does not hold, or of which no sense can be made, is out.
    struct Index {
        Expr low, is_int32;
    };
    const auto index = [&](const Func &tensor, std::vector<Expr> at) {
        at.insert(at.end(), level.begin(), level.end());
        const auto word = [&](const Expr &i) {
            std::vector<Expr> all = {i};
            all.insert(all.end(), at.begin(), at.end());
            return tensor(all);
        };
        const Expr low = word(0), high = word(tensors.words - 1);
        return Index{low, tensors.words == 1 || high == low >> 31};
    };
    const Index height = index(tensors.spatial_shapes, {0}), width = index(tensors.spatial_shapes, {1});
    const Index first = index(tensors.level_start_index, {});
    const Expr is_map = height.is_int32 && width.is_int32 && first.is_int32 && height.low > 0 && width.low > 0;
    const Expr fits = first.low >= 0 && cast<int64_t>(height.low) * width.low <= cast<int64_t>(tensors.num_keys) - first.low;
    return mux(row, {select(is_map, width.low, kNoExtent), select(is_map, height.low, kNoExtent), select(is_map, first.low, 0),
                     select(is_map && fits, 0, 1), level[0]});
}

}  // namespace deformkit
