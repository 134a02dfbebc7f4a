// What kernels and the runtime agree on. Without Halide: both include it.
#pragma once

namespace deformkit {

/// Rows of the table that describes the map of each sample: `level_table(sample, row)`, int32. The last are only of tables that
/// GPU kernels make themselves: whether the map's cells have to be checked, and which level that is.
enum LevelRow { kWidth = 0, kHeight = 1, kFirstKey = 2, kLevelRows = 3, kCheckCells = 3, kLevel = 4 };

/// Width and height of a map without cells: no position lies between -1 and -1.
constexpr int kNoExtent = -1;

/// Kernels read whole vectors of channels: of this many, or a multiple. The widest vector of float32.
constexpr int kChannelMultiple = 16;

/// How the kernels of geometric kernel attention read a location's 32 bits.
enum LocationKind {
    kFloatLocation = 0,      ///< float32; NaN and infinities are nowhere
    kIntLocation = 1,        ///< int32
    kMarkedIntLocation = 2,  ///< int32, as gka_cells writes it; the smallest is nowhere
};

}  // namespace deformkit
