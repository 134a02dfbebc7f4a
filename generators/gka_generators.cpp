#include "generators/algorithms/gka_passes.h"
#include "generators/shared/buffers.h"
#include "generators/shared/estimates.h"
#include "generators/shared/storage.h"
#include "schedules/gka.h"

namespace {

using namespace Halide;

// What autoschedulers may expect: the cells of four levels of 60 x 40, few samples, and a block of queries.
constexpr int kChannels = 32, kHeads = 8, kSamples = 8, kKeys = 9600, kQueries = 9680, kBlock = 128;
constexpr int kKeyStep = kHeads * kChannels, kPositions = (kKeys - 1) * kKeyStep + 1;

/// Locations of another type than float32 and int32 as those two are read: kMarkedIntLocation. locations and cells [2 * M * S,
/// Q, B], innermost axes dense.
class GkaCells : public deformkit::VariantGenerator<GkaCells, deformkit::GkaCellsScheduleKnobs> {
public:
    Input<Buffer<void, 3>> locations{"locations"};
    Output<Buffer<int32_t, 3>> cells{"cells"};

    void configure() { locations.set_type(storage_type); }

    void generate() {
        const Var i{"i"}, q{"q"}, b{"b"};
        const Expr location = locations(i, q, b);
        const bool is_integer = static_cast<const Type &>(storage_type).is_int();
        cells(i, q, b) = deformkit::cell_along(is_integer ? location : deformkit::widen(location, get_target()));
        deformkit::dense_from_zero(locations, cells);
        if (using_autoscheduler()) {
            deformkit::estimate(locations, {2 * kHeads * kSamples, kQueries, 1});
            deformkit::estimate(cells, {2 * kHeads * kSamples, kQueries, 1});
            return;
        }
        deformkit::schedule_gka_cells_cpu(cells, i, q, b, lanes, knobs);
    }
};

/// What every pass reads. Shapes, fastest axis first, mins all zero:
///   level_table [S, 3];  sampling_locations [2, S, M, Q, B], bits of LocationKind.
/// Of these and of all below, the innermost axes are dense; every other stride is free.
template <typename T, typename Knobs>
class GkaGenerator : public deformkit::VariantGenerator<T, Knobs> {
public:
    GeneratorInput<Buffer<int32_t, 2>> level_table{"level_table"};
    GeneratorInput<Buffer<int32_t, 5>> sampling_locations{"sampling_locations"};
    GeneratorInput<int32_t> location_kind{"location_kind"};
    GeneratorInput<bool> check_cells{"check_cells"};

protected:
    Expr num_samples() { return level_table.dim(0).extent(); }
    Expr wide(const Expr &stored) { return deformkit::widen(stored, this->get_target()); }
    Func wide(const Func &stored) { return deformkit::widened(stored, this->get_target()); }
    Expr rounded(const Expr &result) { return deformkit::round_to_storage(this->storage_type, result, this->get_target()); }

    void describe(deformkit::GkaSamples &samples, const Expr &num_keys) {
        samples.level_table = level_table;
        samples.sampling_locations = sampling_locations;
        samples.num_samples = num_samples();
        samples.num_keys = num_keys;
        samples.location_kind = location_kind;
        samples.check_cells = check_cells;
        samples.fused = this->get_target().has_feature(Target::FMA);
        deformkit::dense_from_zero(level_table, sampling_locations);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
    }

    void estimate_samples() {
        deformkit::estimate(level_table, {kSamples, deformkit::kLevelRows});
        deformkit::estimate(sampling_locations, {2, kSamples, kHeads, kQueries, 1});
        location_kind.set_estimate(deformkit::kFloatLocation);
        check_cells.set_estimate(false);
    }

    deformkit::GkaExtents extents(const Expr &num_channels) {
        return {deformkit::compute_lanes(this->storage_type, this->lanes), num_channels, num_samples(), check_cells};
    }
};

/// value [D', M, (K - 1) * key_step + 1, B], D' >= D a multiple of kChannelMultiple. One task of threads is so many queries of
/// a head.
template <typename T, typename Knobs>
class GkaCellsGenerator : public GkaGenerator<T, Knobs> {
public:
    GeneratorInput<Buffer<void, 4>> value{"value"};
    GeneratorInput<int32_t> num_keys{"num_keys"};
    GeneratorInput<int32_t> key_step{"key_step"};
    GeneratorInput<int32_t> query_tile{"query_tile"};

protected:
    deformkit::GkaCells cells() {
        deformkit::GkaCells cells;
        this->describe(cells, num_keys);
        cells.value = this->wide(value);
        cells.key_step = key_step;
        cells.max_position = value.dim(2).extent() - 1;
        deformkit::dense_from_zero(value);
        value.dim(2).set_stride(1);
        return cells;
    }

    void estimate_cells() {
        this->estimate_samples();
        deformkit::estimate(value, {kChannels, kHeads, kPositions, 1});
        num_keys.set_estimate(kKeys);
        key_step.set_estimate(kKeyStep);
        query_tile.set_estimate(kBlock);
    }
};

/// attention_weights [S, M, Q, B];  output [D, M, Q, B].
class GkaForward : public GkaCellsGenerator<GkaForward, deformkit::GkaForwardScheduleKnobs> {
public:
    Input<Buffer<void, 4>> attention_weights{"attention_weights"};
    Output<Buffer<void, 4>> output{"output"};

    void configure() { deformkit::set_types(storage_type, value, attention_weights, output); }

    void generate() {
        deformkit::GkaForward f(cells(), wide(attention_weights));
        output(f.d, f.m, f.q, f.b) = rounded(f.sum(f.d, f.m, f.q, f.b));
        deformkit::dense_from_zero(attention_weights, output);
        if (using_autoscheduler()) {
            estimate_cells();
            deformkit::estimate(attention_weights, {kSamples, kHeads, kQueries, 1});
            deformkit::estimate(output, {kChannels, kHeads, kQueries, 1});
            return;
        }
        deformkit::schedule_gka_forward_cpu(f, output, query_tile, extents(output.dim(0).extent()), knobs);
    }
};

/// grad_output [D', M, Q, B];  grad_weights [S, M, Q, B].
class GkaBackwardSamples : public GkaCellsGenerator<GkaBackwardSamples, deformkit::GkaBackwardSamplesScheduleKnobs> {
public:
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<void, 4>> grad_weights{"grad_weights"};

    void configure() { deformkit::set_types(storage_type, value, grad_output, grad_weights); }

    void generate() {
        const Expr num_channels = grad_output.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        const deformkit::GkaExtents extents = this->extents(num_channels);
        deformkit::GkaBackwardSamples f(cells(), wide(grad_output), num_channels, extents.lanes);
        grad_weights(f.s, f.m, f.q, f.b) = rounded(f.grad_weight);
        deformkit::dense_from_zero(grad_output, grad_weights);
        if (using_autoscheduler()) {
            estimate_cells();
            deformkit::estimate(grad_output, {kChannels, kHeads, kQueries, 1});
            deformkit::estimate(grad_weights, {kSamples, kHeads, kQueries, 1});
            return;
        }
        deformkit::schedule_gka_backward_samples_cpu(f, grad_weights, query_tile, extents, knobs);
    }
};

/// attention_weights [S, M, Q, B];  grad_output [D', M, Q, B], D' >= D a multiple of kChannelMultiple;
/// grad_value [D, M, cells, B]. In the type of arithmetic sums are taken where they belong: D is D', and grad_value holds
/// zeros. Otherwise they are taken head by head in memory of their own, and rounded.
class GkaBackwardValue : public GkaGenerator<GkaBackwardValue, deformkit::GkaBackwardValueScheduleKnobs> {
public:
    Input<Buffer<void, 4>> attention_weights{"attention_weights"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<void, 4>> grad_value{"grad_value"};

    void configure() { deformkit::set_types(storage_type, attention_weights, grad_output, grad_value); }

    void generate() {
        deformkit::GkaBackwardValueInputs in;
        describe(in, grad_value.dim(2).extent());
        in.attention_weights = wide(attention_weights);
        in.grad_output = wide(grad_output);
        in.num_queries = grad_output.dim(2).extent();
        const bool in_place = storage_type == deformkit::compute_type(storage_type);
        deformkit::GkaBackwardValue f(in, in_place ? Func(grad_value) : Func("slab"), in_place);
        if (!in_place) {
            grad_value(f.d, f.m, f.cell, f.b) = rounded(f.slab(f.d, f.m, f.cell, f.b));
        }
        deformkit::dense_from_zero(attention_weights, grad_output, grad_value);
        if (using_autoscheduler()) {
            estimate_samples();
            deformkit::estimate(attention_weights, {kSamples, kHeads, kQueries, 1});
            deformkit::estimate(grad_output, {kChannels, kHeads, kQueries, 1});
            deformkit::estimate(grad_value, {kChannels, kHeads, kKeys, 1});
            return;
        }
        deformkit::schedule_gka_backward_value_cpu(f, grad_value, in_place, extents(grad_output.dim(0).extent()), knobs);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(GkaCells, gka_cells)
HALIDE_REGISTER_GENERATOR(GkaForward, gka_forward)
HALIDE_REGISTER_GENERATOR(GkaBackwardSamples, gka_backward_samples)
HALIDE_REGISTER_GENERATOR(GkaBackwardValue, gka_backward_value)
