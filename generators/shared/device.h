// What kernels of GPUs have in common: 16 bytes a thread, out of words of 32 bits, and level tables that they make themselves.
#pragma once

#include <Halide.h>

namespace deformkit {

/// Words of 32 bits that a thread reads at once.
constexpr int kWordsPerLane = 4;

/// Channels in a word, 2 of 16 bits.
inline int channels_per_word(Halide::Type storage) {
    return 32 / storage.bits();
}

/// What a buffer of channels holds: float32, or words of two channels of 16 bits.
inline Halide::Type word_type(Halide::Type storage) {
    return storage.bits() == 16 ? Halide::UInt(32) : storage;
}
/// What a buffer of single numbers holds: float32 or the bits of 16: OpenCL knows no arrays of float16.
inline Halide::Type bits_type(Halide::Type storage) {
    return storage.bits() == 16 ? Halide::UInt(16) : storage;
}

/// A number of `storage` from its bits_type, widened; and back.
Halide::Expr widen_bits(Halide::Type storage, const Halide::Expr &bits, const Halide::Target &target);
Halide::Expr round_to_bits(Halide::Type storage, const Halide::Expr &result, const Halide::Target &target);

/// (word, ...) as the numbers of each word's channels.
Halide::Func channels_of_words(Halide::Type storage, const Halide::Func &words, const Halide::Target &target);
/// The other way, rounded.
Halide::Expr word_of_channels(Halide::Type storage, const std::vector<Halide::Expr> &channels, const Halide::Target &target);

/// (channel, ...), of which there are so many, for whole blocks of them.
Halide::Func up_to(const Halide::Expr &num_channels, const Halide::Func &rows);

/// The caller's index tensors: of int32, or of int64 as its two words.
struct LevelTensors {
    Halide::Func spatial_shapes;     ///< (word, 0 for heights and 1 for widths, level...)
    Halide::Func level_start_index;  ///< (word, level...)
    Halide::Expr words;              ///< 1 or 2
    Halide::Expr num_keys;
};

/// Row `row` of a LevelTable's column for the level at `level`: with kCheckCells and kLevel, and no extent where sizes make no sense.
Halide::Expr level_row(const LevelTensors &tensors, const std::vector<Halide::Expr> &level, const Halide::Expr &row);

/// Strides of all axes but the first are of whole lanes: 16 bytes. The caller's pointers have to be as well.
template <typename... Buffers>
void lanes_aligned(Buffers &...buffers) {
    const auto align = [](auto &buffer) {
        buffer.set_host_alignment(4 * kWordsPerLane);
        for (int i = 1; i < buffer.dimensions(); i++) {
            buffer.dim(i).set_stride(buffer.dim(i).stride() / kWordsPerLane * kWordsPerLane);
        }
    };
    (align(buffers), ...);
}

}  // namespace deformkit
