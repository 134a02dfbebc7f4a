#include "generators/algorithms/msda_backward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

MsdaBackwardSamples::MsdaBackwardSamples(const MsdaBackwardSamplesInputs &in) {
    const Type type = in.value.type();
    const Expr zero = make_zero(type);

    const BilinearTap tap(in.sampling_locations(0, f, x, y), in.sampling_locations(1, f, x, y), in.level_table(f, kWidth),
                          in.level_table(f, kHeight));
    const Expr weight = in.attention_weights(f, x, y);
    const TouchedCells cells = touched_cells(tap, in.level_table(f, kFirstKey), in.num_keys, in.check_cells, weight);
    // Four positions of a sample: to decode two pairs, as the sums over taps do, takes longer here than to read two numbers more
    // (whole backward on detr_encoder and decoders 0.90x to 0.98x; with four in taps, the forward 1.05x to 1.2x; 2-core EPYC,
    // AVX-512).
    const std::vector<Expr> fields = cell_fields(cells, in.key_step);
    positions(f, c, x, y) = mux(c, {fields[0], fields[1], fields[2], fields[3]});

    channels = RDom(0, in.num_channels, "channels");
    {
        // Within the tensor by touched_cells, once for all channels.
        const Expr stored = decode_position(positions(m * in.num_samples + s, c, x, y));
        const Expr position = unsafe_promise_clamped(stored, 0, in.max_position);
        dot(s, c, m, x, y) = zero;
        dot(s, c, m, x, y) += in.grad_output(channels.x, m, x, y) * in.value(channels.x, m, position);
    }
    head_samples = RDom(0, in.num_samples, 0, in.num_heads, "head_samples");
    {
        dots(f, c, x, y) = undef(type);
        dots(head_samples.y * in.num_samples + head_samples.x, c, x, y) = dot(head_samples.x, c, head_samples.y, x, y);
    }
    {
        // Stand-ins are out from here on, NaN or not.
        Expr corners[4];
        for (int c = 0; c < 4; c++) {
            corners[c] = select(cells.is_cell[c], dots(f, c, x, y), zero);
        }
        const SampleGradients gradients = sample_gradients(tap, weight, corners);
        grad_weight = gradients.weight;
        grad_location = select(xy == 0, gradients.location[0], gradients.location[1]);
    }
}

MsdaBackwardValue::MsdaBackwardValue(const MsdaBackwardValueInputs &in, const Func &slab) : slab(slab) {
    const Type type = in.grad_output.type();
    {
        const BilinearTap tap(in.sampling_locations(0, f), in.sampling_locations(1, f), in.width, in.height);
        const TouchedCells cells = touched_cells(tap, in.first_cell, in.num_cells, in.check_cells, in.attention_weights(f));
        taps(f, field) = mux(field, tap_fields(cells, 1));
    }

    slab(d, cell) = undef(type);
    corners = RDom(0, 4, 0, in.num_samples, 0, in.num_queries, "corners");
    {
        const Expr corner = corners.x, sample = corners.y + in.num_samples * corners.z;
        corners.where(touches_cells(taps(sample, kPair)));
        const Expr target = decode_pair(taps(sample, kPair + corner / 2), corner % 2, 1);
        slab(d, unsafe_promise_clamped(target, 0, in.num_cells - 1)) +=
            taps(sample, kWeight + corner) * in.grad_output(d, corners.z);
    }
}

namespace {

/// The sample `s` and what it touches.
struct HeadSample {
    BilinearTap tap;
    TouchedCells cells;
};

HeadSample head_sample(const MsdaHeadSamples &in, const Expr &s, const Var &m, const Var &q, const Var &b, bool check_cells) {
    const BilinearTap tap(in.sampling_locations(0, s, m, q, b), in.sampling_locations(1, s, m, q, b), in.level_table(s, kWidth),
                          in.level_table(s, kHeight));
    return {tap, touched_cells(tap, in.level_table(s, kFirstKey), in.num_keys, make_const(Bool(), check_cells),
                               in.attention_weights(s, m, q, b))};
}

/// Where the sample's level asks for it.
RDom checked(const MsdaHeadSamples &in, const Expr &s) {
    RDom check(0, 1, "check");
    check.where(in.level_table(s, kCheckCells) != 0);
    return check;
}

}  // namespace

MsdaHeadBackwardSamples::MsdaHeadBackwardSamples(const MsdaHeadBackwardSamplesInputs &in) {
    const auto corners_of = [&](const Expr &s, bool check_cells) {
        const TouchedCells cells = head_sample(in, s, m, q, b, check_cells).cells;
        std::vector<Expr> corners;
        for (int c = 0; c < 4; c++) {
            const Expr key = cells.key[c / 2] + (c % 2 == 0 ? Expr(0) : select(cells.apart[c / 2], 1, 0));
            corners.push_back(key * in.key_step | select(cells.is_cell[c], 0, Int(32).min()));
        }
        return Tuple(corners);
    };
    found(s, m, q, b) = corners_of(s, false);
    const RDom check = checked(in, s);
    found(s, m, q, b) = corners_of(s + check, true);
    positions(c, s, m, q, b) = mux(c, Tuple(found(s, m, q, b)));

    // The first round's words are at hand as vectors.
    const auto position = [&](const Var &c) {
        return unsafe_promise_clamped(positions(c, s, m, q, b) & Int(32).max(), 0, in.max_position);
    };
    const auto with_products = [&](Expr sum, const FuncRef &gradient, const FuncRef &cell) {
        const std::vector<Expr> gradients = elements(gradient), cells = elements(cell);
        for (size_t i = 0; i < cells.size(); i++) {
            sum = sum + gradients[i] * cells[i];
        }
        return sum;
    };
    gradient(word, lane, m, q, b) = Tuple(elements(in.grad_output(lane * in.words_per_lane + word, m, q, b)));
    cell(word, c, lane, s, m, q, b) = Tuple(elements(in.value(lane * in.words_per_lane + word, m, position(c), b)));
    partial(c, lane, s, m, q, b) = 0.f;
    words = RDom(0, in.words_per_lane, "words");
    partial(c, lane, s, m, q, b) =
        with_products(partial(c, lane, s, m, q, b), gradient(words, lane, m, q, b), cell(words, c, lane, s, m, q, b));
    rounds = RDom(0, in.words_per_lane, 1, in.rounds - 1, "rounds");
    {
        const Expr word = (rounds.y * in.num_lanes + lane) * in.words_per_lane + rounds.x;
        partial(c, lane, s, m, q, b) =
            with_products(partial(c, lane, s, m, q, b), in.grad_output(word, m, q, b), in.value(word, m, position(c), b));
    }
    partials(c, lane, s, m, q, b) = partial(c, lane, s, m, q, b);
    lanes = RDom(0, in.num_lanes, "lanes");
    dots(c, s, m, q, b) = 0.f;
    dots(c, s, m, q, b) += partials(c, lanes, s, m, q, b);
    {
        Expr corners[4];
        for (int c = 0; c < 4; c++) {
            corners[c] = select(positions(c, s, m, q, b) >= 0, dots(c, s, m, q, b), 0.f);
        }
        const SampleGradients gradients =
            sample_gradients(head_sample(in, s, m, q, b, false).tap, in.attention_weights(s, m, q, b), corners);
        grad_weight = gradients.weight;
        grad_location[0] = gradients.location[0];
        grad_location[1] = gradients.location[1];
    }
}

MsdaHeadTaps::MsdaHeadTaps(const MsdaHeadBackwardValueInputs &in) {
    const auto fields_of = [&](const Expr &s, bool check_cells) {
        TouchedCells cells = head_sample(in, s, m, q, b, check_cells).cells;
        cells.any = cells.any && s < in.num_samples && q < in.num_queries;
        return Tuple(corner_fields(cells, 1));
    };
    found(s, m, q, b) = fields_of(s, false);
    const RDom check = checked(in, s);
    found(s, m, q, b) = fields_of(s + check, true);
    taps(field, s, m, q, b) = mux(field, Tuple(found(s, m, q, b)));
}

MsdaHeadBackwardValue::MsdaHeadBackwardValue(const MsdaHeadBackwardValueInputs &in, int num_lanes, const Func &grad_value)
    : MsdaHeadTaps(in), grad_value(grad_value) {
    this->grad_value(d, m, k, b) = 0.f;
    gradient(step, lane, m, q, b) = in.grad_output(min(step * num_lanes + lane, in.num_channels - 1), m, q, b);
    const Expr steps = (in.num_channels + num_lanes - 1) / num_lanes;
    samples = RDom({{0, steps}, {0, num_lanes}, {0, 4}, {0, in.num_samples}, {0, in.num_queries}}, "samples");
    {
        const Expr step = samples[0], lane = samples[1], corner = samples[2], channel = step * num_lanes + lane;
        const auto tap = [&](const Expr &field) { return taps(field, samples[3], m, samples[4], b); };
        samples.where(channel < in.num_channels);
        samples.where(touches_cells(tap(kCornerPosition)));
        const Expr key = cast<int32_t>(reinterpret<uint32_t>(tap(kCornerPosition + corner)));
        const Expr added = unsafe_promise_clamped(channel, 0, in.num_channels - 1);
        this->grad_value(added, m, unsafe_promise_clamped(key, 0, in.max_key), b) +=
            tap(kCornerWeight + corner) * gradient(step, lane, m, samples[4], b);
    }
}

MsdaHeadBackwardValueInOrder::MsdaHeadBackwardValueInOrder(const MsdaHeadBackwardValueInputs &in, int cells, int shares)
    : MsdaHeadTaps(in), SumsInOrder(cells, shares) {
    samples = RDom({{0, 4}, {0, in.num_samples}, {0, in.num_queries}}, "samples");
    const auto tap = [&](const Expr &field) { return taps(field, samples.y, m, samples.z, b); };
    add(touches_cells(tap(kCornerPosition)), cast<int32_t>(reinterpret<uint32_t>(tap(kCornerPosition + samples.x))),
        tap(kCornerWeight + samples.x) * in.grad_output(d, m, samples.z, b), m, b);
}

}  // namespace deformkit
