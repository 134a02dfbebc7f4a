// Deformable aggregation, backward: from the caller's tensors to kernels.

#include <algorithm>
#include <optional>
#include <vector>

#include "buffer.h"
#include "da_inputs.h"
#include "dispatch.h"
#include "error.h"
#include "gradients.h"
#include "pack.h"
#include "parallel.h"
#include "slabs.h"

namespace deformkit {

namespace {

// What the samples of a task leave behind before it is written, three numbers for each sample, scale and group, stays in L2.
constexpr int64_t kBytesPerTask = int64_t{512} << 10;
// Tasks for each thread, so that all end at about the same time.
constexpr int64_t kTasksPerThread = 4;

struct Gradients {
    std::optional<Tensor> feature_maps, locations, weights;
};

/// A tensor whose innermost axis is dense and whose strides fit a kernel: `tensor` itself, or a copy.
OwnedTensor prepare_samples(const Tensor &tensor, bool copy_contents) {
    if (dense(tensor, tensor.ndim - 1) && fits_buffer(tensor)) {
        return {tensor, Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor);
    if (copy_contents) {
        copy_elements(tensor, copy.tensor);
    }
    return copy;
}

void backward_samples(const DaInputs &a, const LevelTable &table, const Tensor &grad_output, const Gradients &gradients,
                      int64_t first, int64_t count) {
    const Variant &variant = choose_variant("da_backward_samples", a.feature_maps.dtype);
    const Cells maps = prepare_maps(a, table, variant, first, count);
    const Rows rows = prepare_rows(slice(grad_output, 0, first, count), variant, false);
    const OwnedTensor locations = prepare_samples(slice(a.sample_locations, 0, first, count), true);
    const OwnedTensor weights = prepare_samples(slice(a.weights, 0, first, count), true);
    OwnedTensor grad_locations, grad_weights;
    if (gradients.locations) {
        grad_locations = prepare_samples(slice(*gradients.locations, 0, first, count), false);
    }
    if (gradients.weights) {
        grad_weights = prepare_samples(slice(*gradients.weights, 0, first, count), false);
    }
    std::vector<LevelTable> tables;
    for (int64_t n = 0; n < a.N; n++) {
        tables.push_back(columns_of(table, n * a.S, a.S, 0));
    }

    // A task is some anchors on one camera, or, where that is too much, some points of one.
    const int64_t element = a.feature_maps.dtype.bits == 64 ? 8 : 4;
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
        const auto output = [&](bool wanted, const OwnedTensor &gradient, const OwnedTensor &like) {
            return wanted ? part(gradient.tensor) : slice(part(like.tensor), 0, 0, 0);
        };
        Buffer maps_buffer(item(maps.tensor, 0, b)), table_buffer(table_tensor(tables[n]));
        Buffer locations_buffer(part(locations.tensor)), weights_buffer(part(weights.tensor));
        Buffer rows_buffer(slice(item(rows.tensor, 0, b), 0, v, num_anchors));
        Buffer grad_locations_buffer(output(gradients.locations.has_value(), grad_locations, locations));
        Buffer grad_weights_buffer(output(gradients.weights.has_value(), grad_weights, weights));
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
    if (gradients.locations && grad_locations.memory.data() != nullptr) {
        copy_elements(grad_locations.tensor, slice(*gradients.locations, 0, first, count));
    }
    if (gradients.weights && grad_weights.memory.data() != nullptr) {
        copy_elements(grad_weights.tensor, slice(*gradients.weights, 0, first, count));
    }
}

void backward_maps(const DaInputs &a, const LevelTable &table, const Tensor &grad_output, const Tensor &all_gradients,
                   int64_t first, int64_t count) {
    const Variant &variant = choose_variant("da_backward_value", a.feature_maps.dtype);
    const Rows rows = prepare_rows(slice(grad_output, 0, first, count), variant, false);
    const OwnedTensor locations = prepare_samples(slice(a.sample_locations, 0, first, count), true);
    const OwnedTensor weights = prepare_samples(slice(a.weights, 0, first, count), true);

    const Tensor target = slice(all_gradients, 0, first, count);
    OwnedTensor packed;
    const bool copy = !dense(target, 3) || !fits_buffer(target);
    if (copy) {
        packed = allocate_like(target, {0, 1, 2, 3});
    }
    const Tensor gradient = copy ? packed.tensor : target;

    const std::vector<MapGroup> groups = group_maps(table, a.K);
    const int64_t spare = table.careful ? 1 : 0;
    const bool direct = a.feature_maps.dtype.bits >= 32 && a.D % kChannelMultiple == 0 && spare == 0;
    std::vector<Slabs> slabs(groups.size());
    for (size_t i = 0; i < groups.size() && !direct; i++) {
        SlabGroup with_spare = groups[i];
        with_spare.num_keys += spare;
        slabs[i] = allocate_slabs(with_spare, count, a.G, a.D, a.feature_maps.dtype);
    }

    // Blocks of channels are independent of each other, so that how many there are changes no bit.
    const int64_t slab_count = std::max<int64_t>(1, count * static_cast<int64_t>(groups.size()));
    const int64_t block = divide_up(a.G, std::clamp<int64_t>(divide_up(kTasksPerThread * num_threads(), slab_count), 1, a.G));
    const int64_t blocks = divide_up(a.G, block);
    parallel_for(static_cast<int>(count * static_cast<int64_t>(groups.size()) * blocks), [&](int task) {
        const int64_t g = task % blocks * block, b = task / blocks % count;
        const size_t i = task / (blocks * count);
        const MapGroup &group = groups[i];
        const int64_t num_groups = std::min(block, a.G - g);
        const Tensor cells = direct ? slice(item(gradient, 0, b), 0, group.first_key, group.num_keys)
                                    : item(item(slabs[i].tensor, 0, b), 0, 0).swap_axes(0, 1);
        const Tensor slab = slice(cells, 1, g, num_groups);
        for (int64_t j = 0; j < num_groups && !slab.can_join_axes(1); j++) {
            clear_slab(item(slab, 1, j));
        }
        if (slab.can_join_axes(1)) {
            clear_slab(slab.join_axes(1));
        }
        Buffer slab_buffer(slab), rows_buffer(slice(item(rows.tensor, 0, b), 1, g, num_groups));
        bool careful = table.careful;
        for (int64_t map : group.maps) {
            LevelTable column = columns_of(table, map, 1, group.first_key);
            const int64_t n = map / a.S, s = map % a.S;
            Buffer table_buffer(table_tensor(column)), locations_buffer(item(item(locations.tensor, 0, b), 2, n));
            Buffer weights_buffer(slice(item(item(item(weights.tensor, 0, b), 2, n), 2, s), 2, g, num_groups));
            void *args[] = {table_buffer.get(), locations_buffer.get(), weights_buffer.get(), rows_buffer.get(),
                            &careful,           slab_buffer.get()};
            run_kernel(variant, args, {});
        }
    });
    for (size_t i = 0; i < groups.size() && !direct; i++) {
        reduce_slabs(slabs[i], groups[i], gradient);
    }
    clear_gaps(groups, gradient);
    if (copy) {
        copy_elements(packed.tensor, target);
    }
}

void backward(const DaInputs &a, const Tensor &grad_output, Gradients gradients) {
    const char *name = nullptr;
    for (const char *pass : {"da_backward_samples", "da_backward_value"}) {
        name = choose_variant(pass, a.feature_maps.dtype).name;
    }
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
        const int64_t count = std::min(step, a.B - first);
        if (gradients.locations || gradients.weights) {
            backward_samples(a, table, grad_output, gradients, first, count);
        }
        if (gradients.feature_maps) {
            backward_maps(a, table, grad_output, *gradients.feature_maps, first, count);
        }
    }
    set_last_variant(gradients.feature_maps ? name : choose_variant("da_backward_samples", a.feature_maps.dtype).name);
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
