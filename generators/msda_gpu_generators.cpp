#include "generators/algorithms/msda_backward.h"
#include "generators/algorithms/msda_forward.h"
#include "generators/shared/device_samples.h"
#include "generators/shared/storage.h"
#include "schedules/msda_gpu.h"

namespace {

using namespace Halide;

/// attention_weights [P, L, M, Q, B].
template <typename T, typename Knobs>
class MsdaGpuGenerator : public deformkit::SamplesGpuGenerator<T, Knobs> {
public:
    GeneratorInput<Buffer<void, 5>> attention_weights{"attention_weights"};

protected:
    void set_types() {
        deformkit::set_types(deformkit::bits_type(this->storage_type), this->sampling_locations, attention_weights);
    }
    void describe(deformkit::MsdaHeadSamples &in) {
        in.level_table = this->level_table();
        in.sampling_locations = this->locations();
        in.attention_weights = this->by_samples(attention_weights);
        in.num_samples = this->num_samples();
        in.num_queries = this->num_queries();
        in.num_keys = this->num_keys;
        this->constrain();
        deformkit::from_zero(attention_weights);
    }
};

/// value [D, M, (K - 1) * key_step + 1, B], the third axis in steps of 16 bytes;  output [D, M, Q, B].
class MsdaForward : public MsdaGpuGenerator<MsdaForward, deformkit::MsdaForwardGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> value{"value"};
    Input<int32_t> key_step{"key_step"};
    Output<Buffer<void, 4>> output{"output"};

    void configure() {
        deformkit::set_types(deformkit::word_type(storage_type), value, output);
        MsdaGpuGenerator::set_types();
    }

    void generate() {
        const Target target = get_target();
        const deformkit::MsdaForwardGpuScheduleKnobs schedule = knobs;
        deformkit::MsdaForwardInputs in;
        in.value = deformkit::channels_of_words(storage_type, value, target);
        deformkit::MsdaHeadSamples samples;
        describe(samples);
        in.level_table = samples.level_table;
        in.sampling_locations = samples.sampling_locations;
        in.attention_weights = samples.attention_weights;
        in.num_channels = output.dim(0).extent() / deformkit::kWordsPerLane * deformkit::kWordsPerLane;
        in.num_keys = num_keys;
        in.num_samples = num_samples();
        in.group = schedule.group_samples;
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.fused = true;
        in.by_head = true;
        deformkit::MsdaForward f(in);
        output(f.d, f.m, f.q, f.b) =
            deformkit::word_of_channels(storage_type, deformkit::elements(f.sum(f.d, f.m, f.q, f.b)), target);

        deformkit::dense_from_zero(value, output);
        deformkit::lanes_aligned(value, output);
        value.dim(2).set_stride(deformkit::kWordsPerLane);
        deformkit::schedule_msda_forward_gpu(f, in.level_table, output, query_tile, schedule);
    }
};

/// value as the forward's;  grad_output [D, M, Q, B];  grads: grad_sampling_locations as pairs [S, M, Q, B], grad_weights
/// [S, M, Q, B]. `lanes` threads share a dot product: as many as take all words, 4 at a time, once or some times.
class MsdaBackwardSamples : public MsdaGpuGenerator<MsdaBackwardSamples, deformkit::MsdaBackwardSamplesGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_lanes{"num_lanes"};

    void configure() {
        deformkit::set_types(deformkit::word_type(storage_type), value, grad_output);
        MsdaGpuGenerator::set_types();
        const Type bits = deformkit::bits_type(storage_type);
        grads_ = add_output<Func>("grads", {UInt(2 * bits.bits()), bits}, 4);
    }

    void generate() {
        const Target target = get_target();
        deformkit::MsdaHeadBackwardSamplesInputs in;
        describe(in);
        in.value = deformkit::channels_of_words(storage_type, value, target);
        in.grad_output = deformkit::channels_of_words(storage_type, rows(grad_output), target);
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.num_lanes = num_lanes;
        in.words_per_lane = deformkit::kWordsPerLane;
        in.rounds = grad_output.dim(0).extent() / (deformkit::kWordsPerLane * num_lanes);
        deformkit::MsdaHeadBackwardSamples f(in);
        Func grads = *grads_;
        const auto bits = [&](const Expr &number) {
            const Type pair = grads_->types()[0], one = UInt(pair.bits() / 2);
            return cast(pair, reinterpret(one, deformkit::round_to_bits(storage_type, number, target)));
        };
        const Expr pair = bits(f.grad_location[0]) | bits(f.grad_location[1]) << grads_->types()[0].bits() / 2;
        grads(f.s, f.m, f.q, f.b) = Tuple(pair, deformkit::round_to_bits(storage_type, f.grad_weight, target));

        deformkit::dense_from_zero(value, grad_output);
        deformkit::lanes_aligned(value, grad_output);
        value.dim(2).set_stride(deformkit::kWordsPerLane);
        std::vector<OutputImageParam> outputs = grads.output_buffers();
        deformkit::from_zero(outputs[0]);
        outputs[1].dim(0).set_stride(Expr());
        deformkit::schedule_msda_backward_samples_gpu(f, in.level_table, grads, num_lanes, in.rounds, query_tile, knobs);
    }

private:
    GeneratorOutput<Func> *grads_ = nullptr;
};

/// grad_output [D, M, Q, B] as bits_type, strides free;  grad_value [D, M, K, B], float32, written in full.
class MsdaBackwardValue : public MsdaGpuGenerator<MsdaBackwardValue, deformkit::MsdaBackwardValueGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<float, 4>> grad_value{"grad_value"};

    void configure() {
        MsdaGpuGenerator::set_types();
        grad_output.set_type(deformkit::bits_type(storage_type));
    }

    void generate() {
        const deformkit::MsdaBackwardValueGpuScheduleKnobs schedule = knobs;
        deformkit::MsdaHeadBackwardValueInputs in;
        describe(in);
        in.grad_output = wide_rows(grad_output);
        in.num_channels = grad_value.dim(0).extent();
        in.max_key = grad_value.dim(2).extent() - 1;
        deformkit::MsdaHeadBackwardValue f(in, schedule.sector_channels, grad_value);

        deformkit::from_zero(grad_output);
        deformkit::dense_from_zero(grad_value);
        deformkit::schedule_msda_backward_value_gpu(f, in.level_table, query_tile, schedule);
    }
};

/// The same, in the same order in each call: without atomic additions, for more time. grad_value is rounded, as bits_type.
class MsdaBackwardValueInOrder
    : public MsdaGpuGenerator<MsdaBackwardValueInOrder, deformkit::MsdaBackwardValueInOrderGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<void, 4>> grad_value{"grad_value"};

    void configure() {
        MsdaGpuGenerator::set_types();
        deformkit::set_types(deformkit::bits_type(storage_type), grad_output, grad_value);
    }

    void generate() {
        const deformkit::MsdaBackwardValueInOrderGpuScheduleKnobs schedule = knobs;
        const Var k{"k"};
        deformkit::MsdaHeadBackwardValueInputs in;
        describe(in);
        in.grad_output = deformkit::up_to(grad_value.dim(0).extent(), wide_rows(grad_output));
        deformkit::MsdaHeadBackwardValueInOrder f(in, schedule.share_cells, schedule.shares);
        grad_value(f.d, f.m, k, f.b) = deformkit::round_to_bits(storage_type, f.sum(k, f.m, f.b), get_target());
        deformkit::from_zero(grad_output, grad_value);
        deformkit::schedule_msda_backward_value_in_order_gpu(f, in.level_table, grad_value, k, schedule);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(MsdaForward, msda_forward)
HALIDE_REGISTER_GENERATOR(MsdaBackwardSamples, msda_backward_samples)
HALIDE_REGISTER_GENERATOR(MsdaBackwardValue, msda_backward_value)
HALIDE_REGISTER_GENERATOR(MsdaBackwardValueInOrder, msda_backward_value_in_order)
