#include "generators/algorithms/gka_passes.h"

#include <cstdint>

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

Expr cell_along(const Expr &location) {
    const Type type = location.type();
    if (!type.is_float()) {
        return cast<int32_t>(max(type.bits() > 32 ? min(location, make_const(type, INT32_MAX)) : location, make_zero(type)));
    }
    // The largest number of its type that is an int32. Of float64 by its bits: in OpenCL's code, Halide rounds constants to float32.
    const Expr most =
        type.bits() == 64 ? reinterpret(type, make_const(UInt(64), 0x41dfffffffc00000)) : make_const(type, 2147483520.0);
    const Expr finite = magnitude_bits(location) < non_finite_bits(type), zero = make_zero(type);
    const Expr truncated = cast<int32_t>(strict_float(max(min(select(finite, location, zero), most), zero)));
    return select(!finite, INT32_MIN, strict_float(location > most), INT32_MAX, truncated);
}

Expr GkaSamples::key(const Var &s, const Var &m, const Var &q, const Var &b) const {
    const Expr width = level_table(s, kWidth), height = level_table(s, kHeight), first_key = level_table(s, kFirstKey);
    Expr cell[2], is_somewhere[2];
    for (int xy : {0, 1}) {
        const Expr bits = sampling_locations(xy, s, m, q, b);
        const Expr along = select(location_kind == kFloatLocation, cell_along(reinterpret<float>(bits)), bits);
        is_somewhere[xy] = location_kind == kIntLocation || along != INT32_MIN;
        cell[xy] = max(min(along, (xy == 0 ? width : height) - 1), 0);
    }
    const Expr check_cells = checks_by_level ? level_table(s, kCheckCells) != 0 : this->check_cells;
    const Expr wide = cast<int64_t>(first_key) + cast<int64_t>(cell[1]) * width + cell[0];
    const Expr is_cell = !check_cells || (width > 0 && wide >= 0 && wide < num_keys);
    const Expr checked_key = cast<int32_t>(select(is_cell, wide, cast<int64_t>(0)));
    return select(is_somewhere[0] && is_somewhere[1] && is_cell,
                  select(check_cells, checked_key, first_key + cell[1] * width + cell[0]), -1);
}

Expr GkaSamples::add(const Expr &sum, const Expr &product) const {
    return fused ? sum + product : ordered_add(sum, product);
}

GkaForward::GkaForward(const GkaCells &in, const Func &attention_weights) {
    const Type type = compute_type(in.value.type()), bits = Int(type.bits());
    const Expr key = in.key(s, m, q, b);
    taps(s, field, m, q, b) = mux(field, {reinterpret(type, cast(bits, select(key >= 0, key * in.key_step, -1))),
                                          cast(type, attention_weights(s, m, q, b))});
    const auto position = [&](const Expr &sample) {
        return cast<int32_t>(reinterpret(bits, taps(sample, kPosition, m, q, b)));
    };
    all_samples = RDom(0, in.num_samples, "all_samples");
    lowest(m, q, b) = 0;
    lowest(m, q, b) = min(lowest(m, q, b), position(all_samples));

    const auto product = [&](const Expr &sample) {
        const Expr safe = unsafe_promise_clamped(position(sample), 0, in.max_position);
        return taps(sample, kWeight, m, q, b) * in.value(d, m, safe, b);
    };
    sum(d, m, q, b) = make_zero(type);
    samples = RDom(0, in.num_samples, "samples");
    samples.where(lowest(m, q, b) >= 0);
    sum(d, m, q, b) = in.add(sum(d, m, q, b), product(samples));
    some_samples = RDom(0, in.num_samples, "some_samples");
    some_samples.where(lowest(m, q, b) < 0);
    some_samples.where(position(some_samples) >= 0);
    sum(d, m, q, b) = in.add(sum(d, m, q, b), product(some_samples));
}

GkaBackwardSamples::GkaBackwardSamples(const GkaCells &in, const Func &grad_output, const Expr &num_channels, int num_lanes) {
    const Type type = compute_type(in.value.type());
    const Expr key = in.key(s, m, q, b);
    positions(s, m, q, b) = select(key >= 0, key * in.key_step, -1);

    vectors = RDom(0, num_channels / num_lanes, "vectors");
    const Expr position = unsafe_promise_clamped(max(positions(s, m, q, b), 0), 0, in.max_position);
    const Expr channel = vectors * num_lanes + lane;
    partial(lane, s, m, q, b) = make_zero(type);
    partial(lane, s, m, q, b) =
        in.add(partial(lane, s, m, q, b), grad_output(channel, m, q, b) * in.value(channel, m, position, b));
    lanes = RDom(0, num_lanes, "lanes");
    dot(s, m, q, b) = make_zero(type);
    dot(s, m, q, b) += partial(lanes, s, m, q, b);
    grad_weight = select(positions(s, m, q, b) >= 0, dot(s, m, q, b), make_zero(type));
}

GkaBackwardValue::GkaBackwardValue(const GkaBackwardValueInputs &in, const Func &slab, bool holds_zeros) : slab(slab) {
    const Type type = compute_type(in.grad_output.type());
    cells(s, m, q, b) = in.key(s, m, q, b);

    samples = RDom(0, in.num_samples, 0, in.num_queries, "samples");
    const Expr found = cells(samples.x, m, samples.y, b);
    samples.where(found >= 0);
    const Expr target = unsafe_promise_clamped(found, 0, in.num_keys - 1);
    this->slab(d, m, cell, b) = holds_zeros ? undef(type) : make_zero(type);
    this->slab(d, m, target, b) =
        in.add(slab(d, m, target, b), in.attention_weights(samples.x, m, samples.y, b) * in.grad_output(d, m, samples.y, b));
}

GkaGroupedForward::GkaGroupedForward(const GkaCells &in, const Func &attention_weights, int group) {
    const Expr key = select(s < in.num_samples, in.key(s, m, q, b), -1);
    taps(field, s, m, q, b) =
        mux(field, {reinterpret<float>(select(key >= 0, key * in.key_step, -1)), attention_weights(s, m, q, b)});

    const Tuple zero(std::vector<Expr>(in.value.outputs(), 0.f));
    samples = RDom(0, group, "samples");
    const Expr sample = g * group + samples, position = cast<int32_t>(reinterpret<uint32_t>(taps(0, sample, m, q, b)));
    samples.where(position >= 0);
    of_group(d, g, m, q, b) = zero;
    std::vector<Expr> added;
    const std::vector<Expr> so_far = elements(of_group(d, g, m, q, b));
    const std::vector<Expr> cell = elements(in.value(d, m, unsafe_promise_clamped(position, 0, in.max_position), b));
    for (size_t i = 0; i < cell.size(); i++) {
        added.push_back(so_far[i] + taps(1, sample, m, q, b) * cell[i]);
    }
    of_group(d, g, m, q, b) = Tuple(added);

    groups = RDom(0, (in.num_samples + group - 1) / group, "groups");
    sum(d, m, q, b) = zero;
    added.clear();
    const std::vector<Expr> sums = elements(sum(d, m, q, b)), more = elements(of_group(d, groups, m, q, b));
    for (size_t i = 0; i < sums.size(); i++) {
        added.push_back(sums[i] + more[i]);
    }
    sum(d, m, q, b) = Tuple(added);
}

GkaLaneBackwardSamples::GkaLaneBackwardSamples(const GkaCells &in, const Func &grad_output, const Expr &num_lanes,
                                               const Expr &rounds, int words_per_lane) {
    const Expr key = in.key(s, m, q, b);
    positions(s, m, q, b) = select(key >= 0, key * in.key_step, -1);
    const Expr position = unsafe_promise_clamped(max(positions(s, m, q, b), 0), 0, in.max_position);
    const auto with_products = [&](Expr sum, const FuncRef &gradient, const FuncRef &cell) {
        const std::vector<Expr> gradients = elements(gradient), cells = elements(cell);
        for (size_t i = 0; i < cells.size(); i++) {
            sum = sum + gradients[i] * cells[i];
        }
        return sum;
    };
    gradient(word, lane, m, q, b) = Tuple(elements(grad_output(lane * words_per_lane + word, m, q, b)));
    cell(word, lane, s, m, q, b) = Tuple(elements(in.value(lane * words_per_lane + word, m, position, b)));
    partial(lane, s, m, q, b) = 0.f;
    words = RDom(0, words_per_lane, "words");
    partial(lane, s, m, q, b) =
        with_products(partial(lane, s, m, q, b), gradient(words, lane, m, q, b), cell(words, lane, s, m, q, b));
    this->rounds = RDom(0, words_per_lane, 1, rounds - 1, "rounds");
    const Expr more = (this->rounds.y * num_lanes + lane) * words_per_lane + this->rounds.x;
    partial(lane, s, m, q, b) =
        with_products(partial(lane, s, m, q, b), grad_output(more, m, q, b), in.value(more, m, position, b));
    partials(lane, s, m, q, b) = partial(lane, s, m, q, b);
    lanes = RDom(0, num_lanes, "lanes");
    dot(s, m, q, b) = 0.f;
    dot(s, m, q, b) += partials(lanes, s, m, q, b);
    grad_weight = select(positions(s, m, q, b) >= 0, dot(s, m, q, b), 0.f);
}

GkaLaneTaps::GkaLaneTaps(const GkaBackwardValueInputs &in) {
    const Expr found = select(s < in.num_samples && q < in.num_queries, in.key(s, m, q, b), -1);
    taps(field, s, m, q, b) = mux(field, {reinterpret<float>(found), in.attention_weights(s, m, q, b)});
}

GkaLaneBackwardValue::GkaLaneBackwardValue(const GkaBackwardValueInputs &in, const Expr &num_channels, int num_lanes,
                                           const Func &grad_value)
    : GkaLaneTaps(in), grad_value(grad_value) {
    gradient(step, lane, m, q, b) = in.grad_output(min(step * num_lanes + lane, num_channels - 1), m, q, b);
    this->grad_value(d, m, k, b) = 0.f;
    samples = RDom({{0, (num_channels + num_lanes - 1) / num_lanes}, {0, num_lanes}, {0, in.num_samples}, {0, in.num_queries}},
                   "samples");
    const auto tap = [&](int field) { return taps(field, samples[2], m, samples[3], b); };
    const Expr key = cast<int32_t>(reinterpret<uint32_t>(tap(0))), channel = samples[0] * num_lanes + samples[1];
    samples.where(channel < num_channels);
    samples.where(key >= 0);
    const Expr added = unsafe_promise_clamped(channel, 0, num_channels - 1);
    this->grad_value(added, m, unsafe_promise_clamped(key, 0, in.num_keys - 1), b) +=
        tap(1) * gradient(samples[0], samples[1], m, samples[3], b);
}

GkaLaneBackwardValueInOrder::GkaLaneBackwardValueInOrder(const GkaBackwardValueInputs &in, int cells, int shares)
    : GkaLaneTaps(in), SumsInOrder(cells, shares) {
    samples = RDom({{0, 1}, {0, in.num_samples}, {0, in.num_queries}}, "samples");
    const auto tap = [&](int field) { return taps(field, samples.y, m, samples.z, b); };
    const Expr key = cast<int32_t>(reinterpret<uint32_t>(tap(0)));
    add(key >= 0, key, tap(1) * in.grad_output(d, m, samples.z, b), m, b);
}

}  // namespace deformkit
