// Deformable aggregation, backward: from the caller's tensors to kernels.

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/da_inputs.h"
#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

// What the samples of a task leave behind before it is written, three numbers for each sample, scale and group, stays in L2.
constexpr int64_t kBytesPerTask = int64_t{512} << 10;
// Tasks for each thread, so that all end at about the same time.
constexpr int64_t kTasksPerThread = 4;

struct Gradients {
    std::optional<Tensor> feature_maps, locations, weights;
};

/// What both passes read, for some batch items.
struct Batches {
    int64_t first, count;
    Rows rows;
    OwnedTensor locations, weights;

    Batches(const Variant &variant, const DaInputs &a, const Tensor &grad_output, int64_t first, int64_t count)
        : first(first),
          count(count),
          rows(prepare_rows(slice(grad_output, 0, first, count), variant)),
          locations(readable(slice(a.sample_locations, 0, first, count), variant)),
          weights(readable(slice(a.weights, 0, first, count), variant)) {}
};

void backward_samples(const Variant &variant, const DaInputs &a, const LevelTable &table, const Batches &in,
                      const Gradients &gradients) {
    const int64_t count = in.count;
    const Cells maps = prepare_maps(a, table, variant, in.first, count);
    const auto output_of = [&](const std::optional<Tensor> &gradient) {
        std::optional<Output> output;
        if (gradient) {
            output.emplace(slice(*gradient, 0, in.first, count), variant);
        }
        return output;
    };
    const std::optional<Output> grad_locations = output_of(gradients.locations), grad_weights = output_of(gradients.weights);
    std::vector<LevelTable> tables;
    for (int64_t n = 0; n < a.N; n++) {
        tables.push_back(columns_of(table, n * a.S, a.S, 0));
    }

    // A task is some anchors on one camera, or, where that is too much, some points of one.
    const int64_t element = arithmetic_type(a.feature_maps.dtype).bits / 8;
    const int64_t per_point = 3 * a.S * std::max<int64_t>(a.G, 1) * element;
    const int64_t wanted = divide_up(a.A * a.P * count * a.N, kTasksPerThread * num_threads());
    const int64_t points = std::clamp<int64_t>(std::min(wanted, kBytesPerTask / per_point), 1, a.P);
    const int64_t anchors = std::clamp<int64_t>(std::min(wanted, kBytesPerTask / per_point) / a.P, 1, a.A);
    const int64_t point_tiles = divide_up(a.P, points), anchor_tiles = divide_up(a.A, anchors);
    parallel_for(static_cast<int>(count * a.N * anchor_tiles * point_tiles), [&](int task) {
        const int64_t p = task % point_tiles * points, v = task / point_tiles % anchor_tiles * anchors;
        const int64_t n = task / (point_tiles * anchor_tiles) % a.N, b = task / (point_tiles * anchor_tiles * a.N);
        const int64_t num_anchors = std::min(anchors, a.A - v), num_points = std::min(points, a.P - p);
        const auto part = [&](const Tensor &tensor) {
            return item(slice(slice(item(tensor, 0, b), 0, v, num_anchors), 1, p, num_points), 2, n);
        };
        // What is not wanted has no anchors.
        const auto output = [&](const std::optional<Output> &wanted, const OwnedTensor &like) {
            return wanted ? part(wanted->tensor()) : slice(part(like.tensor), 0, 0, 0);
        };
        Buffer maps_buffer(item(maps.tensor, 0, b)), table_buffer(table_tensor(tables[n]));
        Buffer locations_buffer(part(in.locations.tensor)), weights_buffer(part(in.weights.tensor));
        Buffer rows_buffer(slice(item(in.rows.tensor, 0, b), 0, v, num_anchors));
        Buffer grad_locations_buffer(output(grad_locations, in.locations));
        Buffer grad_weights_buffer(output(grad_weights, in.weights));
        maps_buffer.flatten_keys(2);
        int32_t num_keys = maps.num_keys, key_step = maps.key_step;
        bool careful = table.careful;
        void *args[] = {maps_buffer.get(),
                        table_buffer.get(),
                        locations_buffer.get(),
                        weights_buffer.get(),
                        rows_buffer.get(),
                        &num_keys,
                        &key_step,
                        &careful,
                        grad_locations_buffer.get(),
                        grad_weights_buffer.get()};
        run_kernel(variant, args, {});
    });
    for (const std::optional<Output> *gradient : {&grad_locations, &grad_weights}) {
        if (*gradient) {
            (*gradient)->finish();
        }
    }
}

void backward_maps(const Variant &variant, const DaInputs &a, const LevelTable &table, const Batches &in,
                   const Tensor &all_gradients) {
    const int64_t count = in.count;
    const Tensor target = slice(all_gradients, 0, in.first, count);
    const Output output(target, variant);
    const Tensor &gradient = output.tensor();

    const std::vector<MapGroup> groups = group_maps(table, a.K);
    const int64_t spare = table.careful ? 1 : 0;
    const bool direct = can_be_slab(gradient) && spare == 0;

    // Blocks of channels are independent of each other, so that how many there are changes no bit.
    const int64_t slab_count = std::max<int64_t>(1, count * static_cast<int64_t>(groups.size()));
    const int64_t block = divide_up(a.G, std::clamp<int64_t>(divide_up(kTasksPerThread * num_threads(), slab_count), 1, a.G));
    const int64_t blocks = divide_up(a.G, block);
    parallel_for(static_cast<int>(count * static_cast<int64_t>(groups.size()) * blocks), [&](int task) {
        const int64_t g = task % blocks * block, b = task / blocks % count;
        const MapGroup &group = groups[task / (blocks * count)];
        const Tensor of_task =
            slice(slice(item(gradient, 0, b), 0, group.first_key, group.num_keys), 1, g, std::min(block, a.G - g));
        if (direct) {
            clear_block(of_task);
        }
        const Slab slab(of_task, direct, spare);
        const int64_t num_groups = of_task.shape[1];
        Buffer slab_buffer(slab.tensor().swap_axes(0, 1));
        Buffer rows_buffer(slice(item(in.rows.tensor, 0, b), 1, g, num_groups));
        bool careful = table.careful;
        for (int64_t map : group.maps) {
            LevelTable column = columns_of(table, map, 1, group.first_key);
            const int64_t n = map / a.S, s = map % a.S;
            Buffer table_buffer(table_tensor(column)), locations_buffer(item(item(in.locations.tensor, 0, b), 2, n));
            Buffer weights_buffer(slice(item(item(item(in.weights.tensor, 0, b), 2, n), 2, s), 2, g, num_groups));
            void *args[] = {table_buffer.get(), locations_buffer.get(), weights_buffer.get(), rows_buffer.get(),
                            &careful,           slab_buffer.get()};
            run_kernel(variant, args, {});
        }
        slab.store(worth_streaming(gradient));
    });
    clear_gaps(groups, gradient);
    output.finish();
}

void backward(const DaInputs &a, const Tensor &grad_output, Gradients gradients) {
    const Variant &of_samples = choose_variant("da_backward_samples", a.feature_maps.dtype);
    const Variant &of_maps = choose_variant("da_backward_value", a.feature_maps.dtype);
    set_last_variant("");
    for (std::optional<Tensor> *gradient : {&gradients.feature_maps, &gradients.locations, &gradients.weights}) {
        if (*gradient && (grad_output.empty() || a.nothing_to_sample())) {
            fill_zero(**gradient);
            gradient->reset();
        }
    }
    if (!gradients.feature_maps && !gradients.locations && !gradients.weights) {
        return;
    }
    const LevelTable table = make_map_table(a);
    const int64_t step = batches_at_once(a, table, grad_output);
    for (int64_t first = 0; first < a.B; first += step) {
        const Batches in(of_maps, a, grad_output, first, std::min(step, a.B - first));
        if (gradients.locations || gradients.weights) {
            backward_samples(of_samples, a, table, in, gradients);
        }
        if (gradients.feature_maps) {
            backward_maps(of_maps, a, table, in, *gradients.feature_maps);
        }
    }
    set_last_variant((gradients.feature_maps ? of_maps : of_samples).name);
}

}  // namespace

}  // namespace deformkit

deformkit_status deformkit_deformable_aggregation_backward(const DLTensor *feature_maps, const DLTensor *spatial_shape,
                                                           const DLTensor *scale_start_index, const DLTensor *sample_locations,
                                                           const DLTensor *weights, const DLTensor *grad_output,
                                                           DLTensor *grad_feature_maps, DLTensor *grad_sample_locations,
                                                           DLTensor *grad_weights) {
    using namespace deformkit;
    return guarded([&] {
        const DaInputs a = view_da_inputs(feature_maps, spatial_shape, scale_start_index, sample_locations, weights);
        const Tensor anchors = view_anchors("grad_output", grad_output, a);
        Gradients gradients;
        gradients.feature_maps = view_gradient("grad_feature_maps", grad_feature_maps, view("feature_maps", feature_maps, {3}));
        gradients.locations = view_gradient("grad_sample_locations", grad_sample_locations, a.sample_locations);
        gradients.weights = view_gradient("grad_weights", grad_weights, a.weights);
        require_no_overlap(
            {&gradients.feature_maps, &gradients.locations, &gradients.weights},
            {&a.feature_maps, &a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights, &anchors});
        if (gradients.feature_maps) {
            gradients.feature_maps = gradients.feature_maps->split_axis(2, a.D);
            gradients.feature_maps->shape[2] = a.G;
        }
        backward(a, anchors, gradients);
    });
}
