#include "generators/algorithms/gka_passes.h"
#include "generators/shared/device_samples.h"
#include "generators/shared/storage.h"
#include "schedules/gka_gpu.h"

namespace {

using namespace Halide;

/// Locations of another type than float32 and int32 as those two are read: kMarkedIntLocation. [2, P, L, M, Q, B] of any strides.
class GkaCells : public deformkit::VariantGenerator<GkaCells, deformkit::GkaCellsGpuScheduleKnobs> {
public:
    Input<Buffer<void, 6>> locations{"locations"};
    Output<Buffer<int32_t, 6>> cells{"cells"};

    void configure() { locations.set_type(bits()); }

    void generate() {
        const std::vector<Var> at = {Var("xy"), Var("p"), Var("l"), Var("m"), Var("q"), Var("b")};
        const Expr location = locations(at);
        cells(at) =
            deformkit::cell_along(bits().is_uint() ? deformkit::widen_bits(storage_type, location, get_target()) : location);
        deformkit::from_zero(locations, cells);
        deformkit::schedule_gka_cells_gpu(cells, at, knobs);
    }

private:
    Type bits() const {
        const Type type = storage_type;
        return type.is_float() || type.is_bfloat() ? deformkit::bits_type(type) : type;
    }
};

/// sampling_locations as bits of LocationKind.
template <typename T, typename Knobs>
class GkaGpuGenerator : public deformkit::SamplesGpuGenerator<T, Knobs> {
public:
    GeneratorInput<int32_t> location_kind{"location_kind"};

protected:
    void describe(deformkit::GkaSamples &in) {
        in.level_table = this->level_table();
        in.sampling_locations = this->locations();
        in.num_samples = this->num_samples();
        in.num_keys = this->num_keys;
        in.location_kind = location_kind;
        in.fused = true;
        in.checks_by_level = true;
        this->constrain();
    }
    template <typename Value>
    deformkit::GkaCells cells(Value &value, const Expr &key_step) {
        deformkit::GkaCells in;
        describe(in);
        in.value = deformkit::channels_of_words(this->storage_type, value, this->get_target());
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        deformkit::dense_from_zero(value);
        deformkit::lanes_aligned(value);
        value.dim(2).set_stride(deformkit::kWordsPerLane);
        return in;
    }
};

/// attention_weights [P, L, M, Q, B];  value [D, M, (K - 1) * key_step + 1, B], the third axis in steps of 16 bytes;
/// output [D, M, Q, B].
class GkaForward : public GkaGpuGenerator<GkaForward, deformkit::GkaForwardGpuScheduleKnobs> {
public:
    Input<Buffer<void, 5>> attention_weights{"attention_weights"};
    Input<Buffer<void, 4>> value{"value"};
    Input<int32_t> key_step{"key_step"};
    Output<Buffer<void, 4>> output{"output"};

    void configure() {
        sampling_locations.set_type(Int(32));
        attention_weights.set_type(deformkit::bits_type(storage_type));
        deformkit::set_types(deformkit::word_type(storage_type), value, output);
    }

    void generate() {
        const deformkit::GkaForwardGpuScheduleKnobs schedule = knobs;
        const deformkit::GkaCells in = cells(value, key_step);
        deformkit::GkaGroupedForward f(in, by_samples(attention_weights), schedule.group_samples);
        output(f.d, f.m, f.q, f.b) =
            deformkit::word_of_channels(storage_type, deformkit::elements(f.sum(f.d, f.m, f.q, f.b)), get_target());
        deformkit::from_zero(attention_weights);
        deformkit::dense_from_zero(output);
        deformkit::lanes_aligned(output);
        deformkit::schedule_gka_forward_gpu(f, in.level_table, output, query_tile, schedule);
    }
};

/// value as the forward's;  grad_output [D, M, Q, B];  grad_weights [P * L, M, Q, B]. num_lanes as in MSDA.
class GkaBackwardSamples : public GkaGpuGenerator<GkaBackwardSamples, deformkit::GkaBackwardSamplesGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_lanes{"num_lanes"};
    Output<Buffer<void, 4>> grad_weights{"grad_weights"};

    void configure() {
        sampling_locations.set_type(Int(32));
        deformkit::set_types(deformkit::word_type(storage_type), value, grad_output);
        grad_weights.set_type(deformkit::bits_type(storage_type));
    }

    void generate() {
        const Target target = get_target();
        const deformkit::GkaCells in = cells(value, key_step);
        const Expr rounds = grad_output.dim(0).extent() / (deformkit::kWordsPerLane * num_lanes);
        deformkit::GkaLaneBackwardSamples f(in, deformkit::channels_of_words(storage_type, rows(grad_output), target),
                                            num_lanes, rounds, deformkit::kWordsPerLane);
        grad_weights(f.s, f.m, f.q, f.b) = deformkit::round_to_bits(storage_type, f.grad_weight, target);
        deformkit::dense_from_zero(grad_output);
        deformkit::lanes_aligned(grad_output);
        deformkit::from_zero(grad_weights);
        deformkit::schedule_gka_backward_samples_gpu(f, in.level_table, grad_weights, num_lanes, rounds, query_tile, knobs);
    }
};

/// attention_weights [P, L, M, Q, B];  grad_output [D, M, Q, B] as bits_type;  grad_value [D, M, K, B], float32, written in full.
class GkaBackwardValue : public GkaGpuGenerator<GkaBackwardValue, deformkit::GkaBackwardValueGpuScheduleKnobs> {
public:
    Input<Buffer<void, 5>> attention_weights{"attention_weights"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<float, 4>> grad_value{"grad_value"};

    void configure() {
        sampling_locations.set_type(Int(32));
        deformkit::set_types(deformkit::bits_type(storage_type), attention_weights, grad_output);
    }

    void generate() {
        const deformkit::GkaBackwardValueGpuScheduleKnobs schedule = knobs;
        deformkit::GkaBackwardValueInputs in;
        describe(in);
        in.attention_weights = by_samples(attention_weights);
        in.grad_output = wide_rows(grad_output);
        in.num_queries = num_queries();
        deformkit::GkaLaneBackwardValue f(in, grad_value.dim(0).extent(), schedule.sector_channels, grad_value);
        deformkit::from_zero(attention_weights, grad_output);
        deformkit::dense_from_zero(grad_value);
        deformkit::schedule_gka_backward_value_gpu(f, in.level_table, query_tile, schedule);
    }
};

/// The same, in the same order in each call: without atomic additions, for more time. grad_value is rounded, as bits_type.
class GkaBackwardValueInOrder
    : public GkaGpuGenerator<GkaBackwardValueInOrder, deformkit::GkaBackwardValueInOrderGpuScheduleKnobs> {
public:
    Input<Buffer<void, 5>> attention_weights{"attention_weights"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<void, 4>> grad_value{"grad_value"};

    void configure() {
        sampling_locations.set_type(Int(32));
        deformkit::set_types(deformkit::bits_type(storage_type), attention_weights, grad_output, grad_value);
    }

    void generate() {
        const deformkit::GkaBackwardValueInOrderGpuScheduleKnobs schedule = knobs;
        const Var k{"k"};
        deformkit::GkaBackwardValueInputs in;
        describe(in);
        in.attention_weights = by_samples(attention_weights);
        in.grad_output = deformkit::up_to(grad_value.dim(0).extent(), wide_rows(grad_output));
        in.num_queries = num_queries();
        deformkit::GkaLaneBackwardValueInOrder f(in, schedule.share_cells, schedule.shares);
        grad_value(f.d, f.m, k, f.b) = deformkit::round_to_bits(storage_type, f.sum(k, f.m, f.b), get_target());
        deformkit::from_zero(attention_weights, grad_output, grad_value);
        deformkit::schedule_gka_backward_value_in_order_gpu(f, in.level_table, grad_value, k, schedule);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(GkaCells, gka_cells)
HALIDE_REGISTER_GENERATOR(GkaForward, gka_forward)
HALIDE_REGISTER_GENERATOR(GkaBackwardSamples, gka_backward_samples)
HALIDE_REGISTER_GENERATOR(GkaBackwardValue, gka_backward_value)
HALIDE_REGISTER_GENERATOR(GkaBackwardValueInOrder, gka_backward_value_in_order)
