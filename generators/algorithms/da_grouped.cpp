#include "generators/algorithms/da_grouped.h"

#include <cstdint>

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;

namespace {

/// A sample that takes part: strictly inside (0, 1).
struct Sample {
    Expr visible;
    BilinearTap tap;
    TouchedCells cells;
};

Sample sample_of(const DaSamples &in, const Expr &s, const Var &n, const Var &p, const Var &a, const Var &b, bool check_cells) {
    const Expr u = in.sample_locations(0, n, p, a, b), v = in.sample_locations(1, n, p, a, b);
    const BilinearTap tap(u, v, in.map_table(s, n, kWidth), in.map_table(s, n, kHeight));
    return {strict_float(u > 0.f && u < 1.f && v > 0.f && v < 1.f), tap,
            touched_cells(tap, in.map_table(s, n, kFirstKey), in.num_keys, make_const(Bool(), check_cells), 1.f)};
}

RDom checked(const DaSamples &in, const Var &s, const Var &n) {
    RDom check(0, 1, "check");
    check.where(in.map_table(s, n, kCheckCells) != 0);
    return check;
}

/// What is computed for whole groups of points, anchors and cameras is nothing behind the last.
Expr exists(const DaSamples &in, const Expr &n, const Expr &p, const Expr &a) {
    return n < in.num_cameras && p < in.num_points && a < in.num_anchors;
}

void find(const DaSamples &in, Func found, Func taps, const Var &field, const Var &s, const Var &n, const Var &p, const Var &a,
          const Var &b, const Expr &step) {
    const auto fields_of = [&](const Expr &scale, bool check_cells) {
        Sample sample = sample_of(in, scale, n, p, a, b, check_cells);
        sample.cells.any = sample.cells.any && sample.visible && exists(in, n, p, a);
        return Tuple(corner_fields(sample.cells, step));
    };
    found(s, n, p, a, b) = fields_of(s, false);
    const RDom check = checked(in, s, n);
    found(s, n, p, a, b) = fields_of(s + check, true);
    taps(field, s, n, p, a, b) = mux(field, Tuple(found(s, n, p, a, b)));
}

}  // namespace

DaGroupedForward::DaGroupedForward(const DaCells &in, int group_points) {
    find(in, found, taps, field, s, n, p, a, b, in.key_step);
    const Tuple zero(std::vector<Expr>(in.feature_maps.outputs(), 0.f));
    samples = RDom(0, in.num_scales, 0, in.num_cameras, 0, group_points, "samples");
    const Expr point = k * group_points + samples.z;
    const auto tap = [&](int field) { return Expr(taps(field, samples.x, samples.y, point, a, b)); };
    samples.where(touches_cells(tap(kCornerPosition)));
    of_group(d, g, k, a, b) = zero;
    {
        // The sample before its weight: that may be infinite, and a corner off the map still counts nothing.
        const Expr weight = in.weights(g, samples.x, samples.y, point, a, b);
        std::vector<Expr> sums = elements(of_group(d, g, k, a, b)), sample(sums.size());
        for (int c = 0; c < 4; c++) {
            const Expr position = cast<int32_t>(reinterpret<uint32_t>(tap(kCornerPosition + c)));
            const std::vector<Expr> cell =
                elements(in.feature_maps(d, g, unsafe_promise_clamped(position, 0, in.max_position), b));
            for (size_t i = 0; i < sums.size(); i++) {
                const Expr product = tap(kCornerWeight + c) * cell[i];
                sample[i] = c == 0 ? product : sample[i] + product;
            }
        }
        for (size_t i = 0; i < sums.size(); i++) {
            sums[i] = sums[i] + weight * sample[i];
        }
        of_group(d, g, k, a, b) = Tuple(sums);
    }
    groups = RDom(0, (in.num_points + group_points - 1) / group_points, "groups");
    sum(d, g, a, b) = zero;
    std::vector<Expr> sums = elements(sum(d, g, a, b));
    const std::vector<Expr> more = elements(of_group(d, g, groups, a, b));
    for (size_t i = 0; i < sums.size(); i++) {
        sums[i] = sums[i] + more[i];
    }
    sum(d, g, a, b) = Tuple(sums);
}

DaGroupedBackwardSamples::DaGroupedBackwardSamples(const DaCells &in, const Func &grad_output, const Expr &num_lanes,
                                                   int words_per_lane) {
    const auto corners_of = [&](const Expr &scale, bool check_cells) {
        const Sample sample = sample_of(in, scale, n, p, a, b, check_cells);
        const Expr any = sample.cells.any && sample.visible && exists(in, n, p, a);
        std::vector<Expr> corners;
        for (int c = 0; c < 4; c++) {
            const Expr key = sample.cells.key[c / 2] + (c % 2 == 0 ? Expr(0) : select(sample.cells.apart[c / 2], 1, 0));
            corners.push_back(select(any, key * in.key_step | select(sample.cells.is_cell[c], 0, Int(32).min()), -1));
        }
        return Tuple(corners);
    };
    found(s, n, p, a, b) = corners_of(s, false);
    const RDom check = checked(in, s, n);
    found(s, n, p, a, b) = corners_of(s + check, true);
    positions(c, s, n, p, a, b) = mux(c, Tuple(found(s, n, p, a, b)));

    gradient(word, lane, g, a, b) = Tuple(elements(grad_output(lane * words_per_lane + word, g, a, b)));
    const Expr position = positions(c, s, n, p, a, b),
               at = unsafe_promise_clamped(position & Int(32).max(), 0, in.max_position);
    cell(word, c, lane, g, s, n, p, a, b) = Tuple(elements(in.feature_maps(lane * words_per_lane + word, g, at, b)));
    words = RDom(0, words_per_lane, "words");
    words.where(positions(0, s, n, p, a, b) != -1);
    partial(c, lane, g, s, n, p, a, b) = 0.f;
    {
        const std::vector<Expr> gradients = elements(gradient(words, lane, g, a, b)),
                                cells = elements(cell(words, c, lane, g, s, n, p, a, b));
        Expr sum = partial(c, lane, g, s, n, p, a, b);
        for (size_t i = 0; i < cells.size(); i++) {
            sum = sum + gradients[i] * cells[i];
        }
        partial(c, lane, g, s, n, p, a, b) = sum;
    }
    partials(c, lane, g, s, n, p, a, b) = partial(c, lane, g, s, n, p, a, b);
    lanes = RDom(0, num_lanes, "lanes");
    dots(c, g, s, n, p, a, b) = 0.f;
    dots(c, g, s, n, p, a, b) += partials(c, lanes, g, s, n, p, a, b);
    {
        Expr corners[4];
        for (int i = 0; i < 4; i++) {
            corners[i] = select(positions(i, s, n, p, a, b) >= 0, dots(i, g, s, n, p, a, b), 0.f);
        }
        const Sample sample = sample_of(in, s, n, p, a, b, false);
        const SampleGradients gradients =
            sample_gradients(sample.tap, select(sample.visible, in.weights(g, s, n, p, a, b), 0.f), corners);
        grad_weight = gradients.weight;
        share[0] = gradients.location[0];
        share[1] = gradients.location[1];
    }
}

DaGroupedBackwardValue::DaGroupedBackwardValue(const DaSamples &in, const Func &grad_output, const Expr &num_channels,
                                               int num_lanes, const Func &grad_maps)
    : grad_maps(grad_maps) {
    find(in, found, taps, field, s, n, p, a, b, 1);
    gradient(step, lane, g, a, b) = grad_output(min(step * num_lanes + lane, num_channels - 1), g, a, b);
    this->grad_maps(d, g, cell, b) = 0.f;
    samples = RDom({{0, (num_channels + num_lanes - 1) / num_lanes},
                    {0, num_lanes},
                    {0, 4},
                    {0, in.num_scales},
                    {0, in.num_cameras},
                    {0, in.num_points},
                    {0, in.num_anchors}},
                   "samples");
    const Expr step = samples[0], lane = samples[1], corner = samples[2], scale = samples[3], camera = samples[4],
               point = samples[5], anchor = samples[6], channel = step * num_lanes + lane;
    const auto tap = [&](const Expr &field) { return taps(field, scale, camera, point, anchor, b); };
    samples.where(channel < num_channels);
    samples.where(touches_cells(tap(kCornerPosition)));
    const Expr key =
        unsafe_promise_clamped(cast<int32_t>(reinterpret<uint32_t>(tap(kCornerPosition + corner))), 0, in.num_keys - 1);
    this->grad_maps(unsafe_promise_clamped(channel, 0, num_channels - 1), g, key, b) +=
        tap(kCornerWeight + corner) * (in.weights(g, scale, camera, point, anchor, b) * gradient(step, lane, g, anchor, b));
}

DaGroupedBackwardValueInOrder::DaGroupedBackwardValueInOrder(const DaSamples &in, const Func &grad_output, int cells,
                                                             int shares)
    : SumsInOrder(cells, shares) {
    find(in, found, taps, field, s, n, p, a, b, 1);
    samples = RDom({{0, 4}, {0, in.num_scales}, {0, in.num_cameras}, {0, in.num_points}, {0, in.num_anchors}}, "samples");
    const Expr corner = samples[0], scale = samples[1], camera = samples[2], point = samples[3], anchor = samples[4];
    const auto tap = [&](const Expr &field) { return taps(field, scale, camera, point, anchor, b); };
    add(touches_cells(tap(kCornerPosition)), cast<int32_t>(reinterpret<uint32_t>(tap(kCornerPosition + corner))),
        tap(kCornerWeight + corner) * (in.weights(g, scale, camera, point, anchor, b) * grad_output(d, g, anchor, b)), g, b);
}

}  // namespace deformkit
