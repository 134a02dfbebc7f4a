#include "generators/algorithms/da_grouped.h"
#include "generators/shared/buffers.h"
#include "generators/shared/device.h"
#include "schedules/da_gpu.h"

namespace {

using namespace Halide;

/// What every pass reads: spatial_shape [words, 2, S, N];  scale_start_index [words, S, N];  sample_locations [2, N, P, A, B];
/// weights [G, S, N, P, A, B]. Channels come in words, single numbers as bits_type, as in generators/shared/device_samples.h.
template <typename T, typename Knobs>
class DaGpuGenerator : public deformkit::VariantGenerator<T, Knobs> {
public:
    GeneratorInput<Buffer<int32_t, 4>> spatial_shape{"spatial_shape"};
    GeneratorInput<Buffer<int32_t, 3>> scale_start_index{"scale_start_index"};
    GeneratorInput<Buffer<void, 5>> sample_locations{"sample_locations"};
    GeneratorInput<Buffer<void, 6>> weights{"weights"};
    GeneratorInput<int32_t> num_keys{"num_keys"};

protected:
    const Var xy{"xy"}, g{"g"}, s{"s"}, n{"n"}, p{"p"}, a{"a"}, b{"b"}, row{"row"}, d{"d"};

    void describe(deformkit::DaSamples &in) {
        const deformkit::LevelTensors tensors{spatial_shape, scale_start_index, spatial_shape.dim(0).extent(), num_keys};
        Func table("map_table"), locations("locations"), wide("wide_weights");
        const Expr camera = last(n, sample_locations.dim(1)), point = last(p, sample_locations.dim(2));
        table(s, n, row) = deformkit::level_row(tensors, {last(s, weights.dim(1)), camera}, row);
        locations(xy, n, p, a, b) = number(sample_locations(xy, camera, point, anchor(), b));
        wide(g, s, n, p, a, b) = number(weights(last(g, weights.dim(0)), last(s, weights.dim(1)), camera, point, anchor(), b));
        in.map_table = table;
        in.sample_locations = locations;
        in.weights = wide;
        in.num_keys = num_keys;
        in.num_cameras = sample_locations.dim(1).extent();
        in.num_points = sample_locations.dim(2).extent();
        in.num_anchors = sample_locations.dim(3).extent();
        in.num_scales = weights.dim(1).extent();
        deformkit::from_zero(spatial_shape, scale_start_index, sample_locations, weights);
        spatial_shape.dim(1).set_extent(2);
        sample_locations.dim(0).set_extent(2);
    }
    template <typename Maps>
    deformkit::DaCells cells(Maps &feature_maps, const Expr &key_step) {
        deformkit::DaCells in;
        describe(in);
        in.feature_maps = deformkit::channels_of_words(this->storage_type, feature_maps, this->get_target());
        in.key_step = key_step;
        in.max_position = feature_maps.dim(2).extent() - 1;
        deformkit::dense_from_zero(feature_maps);
        deformkit::lanes_aligned(feature_maps);
        feature_maps.dim(2).set_stride(deformkit::kWordsPerLane);
        return in;
    }
    /// grad_output, in words or not.
    template <typename Rows>
    Func rows(Rows &buffer) {
        Func rows("rows");
        rows(d, g, a, b) = buffer(d, last(g, buffer.dim(1)), anchor(), b);
        return rows;
    }
    template <typename Rows>
    Func wide_rows(Rows &buffer) {
        const Func bits = rows(buffer);
        Func wide("wide_rows");
        wide(d, g, a, b) = number(bits(d, g, a, b));
        return wide;
    }
    Expr number(const Expr &bits) { return deformkit::widen_bits(this->storage_type, bits, this->get_target()); }
    void set_types() { deformkit::set_types(deformkit::bits_type(this->storage_type), sample_locations, weights); }

private:
    template <typename Dimension>
    static Expr last(const Var &at, const Dimension &dimension) {
        return min(at, dimension.extent() - 1);
    }
    Expr anchor() { return last(a, sample_locations.dim(3)); }
};

/// feature_maps [D, G, (K - 1) * key_step + 1, B], the third axis in steps of 16 bytes;  output [D, G, A, B]. A block takes some
/// anchors and groups.
class DaForward : public DaGpuGenerator<DaForward, deformkit::DaForwardGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> feature_maps{"feature_maps"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> anchor_tile{"anchor_tile"};
    Input<int32_t> group_tile{"group_tile"};
    Output<Buffer<void, 4>> output{"output"};

    void configure() {
        DaGpuGenerator::set_types();
        deformkit::set_types(deformkit::word_type(storage_type), feature_maps, output);
    }

    void generate() {
        const deformkit::DaForwardGpuScheduleKnobs schedule = knobs;
        const deformkit::DaCells in = cells(feature_maps, key_step);
        deformkit::DaGroupedForward f(in, schedule.group_points);
        output(f.d, f.g, f.a, f.b) =
            deformkit::word_of_channels(storage_type, deformkit::elements(f.sum(f.d, f.g, f.a, f.b)), get_target());
        deformkit::dense_from_zero(output);
        deformkit::lanes_aligned(output);
        deformkit::schedule_da_forward_gpu(f, in.map_table, output, anchor_tile, group_tile, schedule);
    }
};

/// feature_maps as the forward's;  grad_output [D, G, A, B];  grads: grad_weights [G, S, N, P, A, B], and the shares of the locations'
/// gradients, pairs in float32 of the same axes, for da_backward_locations. A block takes a point of an anchor.
class DaBackwardSamples : public DaGpuGenerator<DaBackwardSamples, deformkit::DaBackwardSamplesGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> feature_maps{"feature_maps"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> camera_tile{"camera_tile"};
    Input<int32_t> group_tile{"group_tile"};

    void configure() {
        DaGpuGenerator::set_types();
        deformkit::set_types(deformkit::word_type(storage_type), feature_maps, grad_output);
        grads_ = add_output<Func>("grads", {deformkit::bits_type(storage_type), UInt(64)}, 6);
    }

    void generate() {
        const Target target = get_target();
        const deformkit::DaCells in = cells(feature_maps, key_step);
        const Expr lanes = grad_output.dim(0).extent() / deformkit::kWordsPerLane;
        deformkit::DaGroupedBackwardSamples f(in, deformkit::channels_of_words(storage_type, rows(grad_output), target), lanes,
                                              deformkit::kWordsPerLane);
        Func grads = *grads_;
        const auto bits = [](const Expr &share) { return cast<uint64_t>(reinterpret<uint32_t>(share)); };
        grads(f.g, f.s, f.n, f.p, f.a, f.b) =
            Tuple(deformkit::round_to_bits(storage_type, f.grad_weight, target), bits(f.share[0]) | bits(f.share[1]) << 32);
        deformkit::dense_from_zero(grad_output);
        deformkit::lanes_aligned(grad_output);
        std::vector<OutputImageParam> outputs = grads.output_buffers();
        deformkit::from_zero(outputs[0]);
        deformkit::schedule_da_backward_samples_gpu(f, in.map_table, grads, lanes, camera_tile, group_tile, knobs);
    }

private:
    GeneratorOutput<Func> *grads_ = nullptr;
};

/// shares as da_backward_samples leaves them;  grad_locations: pairs [N, P, A, B].
class DaBackwardLocations
    : public deformkit::VariantGenerator<DaBackwardLocations, deformkit::DaBackwardLocationsGpuScheduleKnobs> {
public:
    Input<Buffer<uint64_t, 6>> shares{"shares"};
    Output<Buffer<void, 4>> grad_locations{"grad_locations"};

    void configure() { grad_locations.set_type(UInt(2 * deformkit::bits_type(storage_type).bits())); }

    void generate() {
        const Var n{"n"}, p{"p"}, a{"a"}, b{"b"};
        const RDom all(0, shares.dim(0).extent(), 0, shares.dim(1).extent(), "all");
        Func sum("sum");
        const Expr share = shares(all.x, all.y, n, p, a, b);
        sum(n, p, a, b) = Tuple(0.f, 0.f);
        sum(n, p, a, b) = Tuple(sum(n, p, a, b)[0] + reinterpret<float>(cast<uint32_t>(share)),
                                sum(n, p, a, b)[1] + reinterpret<float>(cast<uint32_t>(share >> 32)));
        const Type pair = grad_locations.type();
        const auto bits = [&](int i) {
            const Expr number = deformkit::round_to_bits(storage_type, sum(n, p, a, b)[i], get_target());
            return cast(pair, reinterpret(UInt(pair.bits() / 2), number));
        };
        grad_locations(n, p, a, b) = bits(0) | bits(1) << pair.bits() / 2;
        deformkit::from_zero(shares, grad_locations);
        deformkit::schedule_da_backward_locations_gpu(sum, grad_locations, {n, p, a, b}, knobs);
    }
};

/// grad_output [D, G, A, B] as bits_type;  grad_maps [D, G, K, B], float32, written in full.
class DaBackwardValue : public DaGpuGenerator<DaBackwardValue, deformkit::DaBackwardValueGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Input<int32_t> anchor_tile{"anchor_tile"};
    Input<int32_t> group_tile{"group_tile"};
    Output<Buffer<float, 4>> grad_maps{"grad_maps"};

    void configure() {
        DaGpuGenerator::set_types();
        grad_output.set_type(deformkit::bits_type(storage_type));
    }

    void generate() {
        const deformkit::DaBackwardValueGpuScheduleKnobs schedule = knobs;
        deformkit::DaSamples in;
        describe(in);
        deformkit::DaGroupedBackwardValue f(in, wide_rows(grad_output), grad_maps.dim(0).extent(), schedule.sector_channels,
                                            grad_maps);
        deformkit::from_zero(grad_output);
        deformkit::dense_from_zero(grad_maps);
        deformkit::schedule_da_backward_value_gpu(f, in.map_table, anchor_tile, group_tile, schedule);
    }
};

/// The same, in the same order in each call: without atomic additions, for more time. grad_maps is rounded, as bits_type.
class DaBackwardValueInOrder
    : public DaGpuGenerator<DaBackwardValueInOrder, deformkit::DaBackwardValueInOrderGpuScheduleKnobs> {
public:
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Output<Buffer<void, 4>> grad_maps{"grad_maps"};

    void configure() {
        DaGpuGenerator::set_types();
        deformkit::set_types(deformkit::bits_type(storage_type), grad_output, grad_maps);
    }

    void generate() {
        const deformkit::DaBackwardValueInOrderGpuScheduleKnobs schedule = knobs;
        const Var k{"k"};
        deformkit::DaSamples in;
        describe(in);
        deformkit::DaGroupedBackwardValueInOrder f(in, deformkit::up_to(grad_maps.dim(0).extent(), wide_rows(grad_output)),
                                                   schedule.share_cells, schedule.shares);
        grad_maps(f.d, f.g, k, f.b) = deformkit::round_to_bits(storage_type, f.sum(k, f.g, f.b), get_target());
        deformkit::from_zero(grad_output, grad_maps);
        deformkit::schedule_da_backward_value_in_order_gpu(f, in.map_table, grad_maps, k, schedule);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(DaForward, da_forward)
HALIDE_REGISTER_GENERATOR(DaBackwardSamples, da_backward_samples)
HALIDE_REGISTER_GENERATOR(DaBackwardLocations, da_backward_locations)
HALIDE_REGISTER_GENERATOR(DaBackwardValue, da_backward_value)
HALIDE_REGISTER_GENERATOR(DaBackwardValueInOrder, da_backward_value_in_order)
