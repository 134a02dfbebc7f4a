// Deformable aggregation, forward: the algorithm.
//
//   output[b, a, c] = sum over points p, cameras n, scales s of weights[b, a, p, n, s, group of c] * (bilinear sample)
//
// Axes, fastest first: c channel, g group of channels, s scale, n camera, p point, v anchor, b batch; f = p * N + n. A sample that
// is not strictly inside (0, 1) is left out before anything is computed for it: `list` names the points that are left, camera by
// camera. What is left has its taps computed once for all channels.
//
// An anchor with many points may come as several that follow each other, `parts` of them, each with a part of the points.
#pragma once

#include <Halide.h>

#include "sampling.h"

namespace deformkit {

struct DaInputs {
    Halide::Func feature_maps;      ///< (c, k * key_step, b)
    Halide::Func map_table;         ///< (n * S + s, LevelRow)
    Halide::Func sample_locations;  ///< (xy, f, v, b)
    Halide::Func weights;           ///< (g, s, f, v, b)
    Halide::Expr num_groups, channels_per_group, num_keys, num_points, num_cameras, num_scales, num_parts;
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
    Halide::Expr careful;                 ///< some map is empty or reaches outside: the last key is spare, and its cell is zero
};

/// The samples of each anchor and camera that take part.
struct DaVisible {
    Halide::Var f{"f"}, p{"p"}, n{"n"}, v{"v"}, b{"b"};
    Halide::RDom scan, order;

    Halide::Func visible{"visible"};  ///< (f, v, b)
    Halide::Func slot{"slot"};        ///< (p, n, v, b): how many of the points before p are visible
    Halide::Func list{"list"};        ///< (i, n, v, b): the i-th visible point, i < slot(P, n, v, b)

    explicit DaVisible(const DaInputs &inputs);
    Halide::Expr count(const Halide::Expr &n, const Halide::Expr &v, const Halide::Expr &b) const;
};

/// What a sample boils down to on one map: the positions (as bits) of its four corners in feature_maps, and their weights.
enum DaTapField { kCornerPosition = 0, kSharedWeight = 4, kDaTapFields = 8 };

struct DaForward {
    Halide::Var c{"c"}, v{"v"}, a{"a"}, b{"b"}, p{"p"}, n{"n"}, s{"s"}, field{"field"};
    Halide::RDom samples, parts;  ///< (i, s, n)

    DaVisible visible;
    Halide::Func group{"group"};  ///< (c)
    Halide::Func taps{"taps"};    ///< (p, DaTapField, s, n, v, b)
    Halide::Func sum{"sum"};      ///< (c, v, b)
    Halide::Func total{"total"};  ///< (c, a, b): of an anchor's parts

    explicit DaForward(const DaInputs &inputs);
};

/// The group of channel `c`. Where the number of channels per group is known to be one of the common ones, an expression that
/// is the same for all lanes of a vector; else a look-up in `group`.
Halide::Expr group_of(const Halide::Func &group, const Halide::Expr &c, const DaInputs &inputs);
constexpr int kCommonGroups[] = {32, 16};

}  // namespace deformkit
