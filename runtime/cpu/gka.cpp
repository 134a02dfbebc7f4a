// Geometric kernel attention: from the caller's tensors to kernels.

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/cpu/gka_locations.h"
#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/interface/msda_inputs.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

// Less than about 20 us of work is not worth waking a thread for.
constexpr int64_t kMinSamplesPerTask = 8192;
constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kManyHeads = 16;
constexpr int64_t kCellBytes = int64_t{3} << 19;

struct Gradients {
    std::optional<Tensor> value, weights;
};

/// What every pass reads, for some batch items.
struct Batches {
    int64_t first, count;
    CellLocations cells;
    OwnedTensor locations;  // [count, Q, M * S, 2]

    Batches(const Variant &variant, const MsdaInputs &a, int64_t first, int64_t count)
        : first(first),
          count(count),
          cells(prepare_cell_locations(slice(a.sampling_locations, 0, first, count))),
          locations(joined_input(cells.bits.tensor, variant)) {}
};

/// Runs task(b, m, first query, number of queries) for all heads of `count` batch items, in parallel.
template <typename Task>
void for_each_head(const MsdaInputs &a, int64_t count, Task &&task) {
    const int64_t smallest = divide_up(kMinSamplesPerTask, std::max<int64_t>(a.samples(), 1));
    const int64_t wanted = divide_up(a.Q, divide_up(num_threads() * kTasksPerThread, count * a.M));
    const int64_t tile = std::min(a.Q, std::max(wanted, smallest)), tiles = divide_up(a.Q, tile);
    parallel_for(static_cast<int>(count * a.M * tiles), [&](int i) {
        const int64_t begin = i % tiles * tile;
        task(i / tiles / a.M, i / tiles % a.M, begin, std::min(tile, a.Q - begin));
    });
}

/// What the kernels of forward and of the gradient of weights do alike: they go over the cells of a head once more for each of
/// its samples. `input` and `output` are theirs alone: weights and output, or gradients of output and of weights.
void run_heads(const Variant &variant, const MsdaInputs &a, const LevelTable &levels, const Batches &in, const Tensor &input,
               const Tensor &output, bool samples_in) {
    const Cells value = prepare_value(a, variant, {a.reads_often()}, in.first, in.count);
    const LevelTable of_head = columns_of(levels, 0, a.samples(), 0);
    for_each_head(a, in.count, [&](int64_t b, int64_t m, int64_t begin, int64_t queries) {
        const auto rows = [&](const Tensor &tensor) { return slice(item(item(tensor, 0, b), 1, m), 0, begin, queries); };
        const auto samples = [&](const Tensor &tensor) {
            return slice(slice(item(tensor, 0, b), 1, m * a.samples(), a.samples()), 0, begin, queries);
        };
        LevelTable table = of_head;
        Buffer value_buffer(item(item(value.tensor, 0, b), 1, m)), table_buffer(table_tensor(table));
        Buffer locations_buffer(samples(in.locations.tensor));
        Buffer input_buffer(samples_in ? samples(input) : rows(input)),
            output_buffer(samples_in ? rows(output) : samples(output));
        value_buffer.flatten_keys(1);
        int32_t num_keys = value.num_keys, key_step = value.key_step, kind = in.cells.kind;
        bool careful = levels.careful;
        void *args[] = {
            value_buffer.get(), table_buffer.get(), locations_buffer.get(), input_buffer.get(), &num_keys, &key_step, &kind,
            &careful,           output_buffer.get()};
        run_kernel(variant, args, {});
    });
}

void forward_batches(const Variant &variant, const MsdaInputs &a, const Tensor &all_output, const LevelTable &levels,
                     int64_t first, int64_t count) {
    const Batches in(variant, a, first, count);
    const OwnedTensor weights = joined_input(slice(a.attention_weights, 0, first, count), variant);
    const Tensor target = slice(all_output, 0, first, count);
    const Output output(target, variant);
    run_heads(variant, a, levels, in, weights.tensor, output.tensor(), true);
    output.finish();
}

/// What forward and backward do alike before anything else. Careful also where a level has no cells.
LevelTable prepare_levels(MsdaInputs &a, int64_t &dropped) {
    LevelTable levels = make_level_table(a.spatial_shapes, a.level_start_index, a.M, a.P, a.K);
    dropped = drop_unused_keys(a, levels);
    levels.careful = levels.careful || has_empty(levels);
    return levels;
}

void forward(MsdaInputs a, const Tensor &output) {
    const Variant &variant = choose_variant("gka_forward", a.value.dtype);
    set_last_variant("");
    if (output.empty()) {
        return;
    }
    if (a.is_empty()) {
        fill_zero(output);
        return;
    }
    int64_t dropped = 0;
    const LevelTable levels = prepare_levels(a, dropped);
    const int64_t step = batches_at_once(a, {&output});
    for (int64_t first = 0; first < a.B; first += step) {
        forward_batches(variant, a, output, levels, first, std::min(step, a.B - first));
    }
    set_last_variant(variant.name);
}

void backward_samples(const Variant &variant, const MsdaInputs &a, const LevelTable &levels, const Batches &in,
                      const Rows &rows, const Tensor &all_grad_weights) {
    const JoinedOutput grad_weights(slice(all_grad_weights, 0, in.first, in.count), variant);
    run_heads(variant, a, levels, in, rows.tensor, grad_weights.tensor(), false);
    grad_weights.finish();
}

void backward_value(const Variant &variant, const MsdaInputs &a, const LevelTable &levels, const Batches &in, const Rows &rows,
                    const Tensor &all_grad_value) {
    const int64_t count = in.count;
    const OwnedTensor weights = joined_input(slice(a.attention_weights, 0, in.first, count), variant);
    const Tensor target = slice(all_grad_value, 0, in.first, count);
    const Output output(target, variant);
    const Tensor &gradient = output.tensor();

    // By heads where these are enough for the threads and the cells of one fit into L2; else by maps. Shapes alone decide,
    // since the order of sums in maps that share cells depends on it.
    const bool whole = a.B * a.M >= kManyHeads && a.K * round_up(a.D, kChannelMultiple) * 4 <= kCellBytes;
    LevelTable maps;
    maps.careful = levels.careful;
    maps.columns = whole ? 1 : a.L;
    for (int row = 0; row < 3 && !whole; row++) {
        for (int64_t l = 0; l < a.L; l++) {
            maps.rows.push_back(levels.rows[row * levels.columns + l * a.P]);
        }
    }
    const std::vector<MapGroup> groups = whole ? std::vector<MapGroup>{{{0, 0, 0, a.K}, {0}}} : group_maps(maps, a.K);
    const int64_t samples_of_map = whole ? a.samples() : a.P;
    // Few samples: straight into the gradient, where a slab would only be cleared and copied.
    const bool direct = can_be_slab(gradient) && !a.reads_often();
    if (direct) {
        for (const MapGroup &group : groups) {
            fill_zero(slice(gradient, 1, group.first_key, group.num_keys));
        }
    }
    parallel_for(static_cast<int>(static_cast<int64_t>(groups.size()) * count * a.M), [&](int task) {
        const int64_t m = task % a.M, b = task / a.M % count;
        const MapGroup &group = groups[task / (a.M * count)];
        const Tensor of_task = slice(slice(item(gradient, 0, b), 0, group.first_key, group.num_keys), 1, m, 1);
        const Slab slab(of_task, direct);
        Buffer slab_buffer(item(slab.tensor(), 0, 0)), rows_buffer(item(item(rows.tensor, 0, b), 1, m));
        bool careful = levels.careful;
        int32_t kind = in.cells.kind;
        for (int64_t l : group.maps) {
            LevelTable column = columns_of(levels, l * samples_of_map, samples_of_map, group.first_key);
            const auto samples = [&](const Tensor &tensor) {
                return slice(item(tensor, 0, b), 1, m * a.samples() + l * samples_of_map, samples_of_map);
            };
            Buffer table_buffer(table_tensor(column)), locations_buffer(samples(in.locations.tensor));
            Buffer weights_buffer(samples(weights.tensor));
            void *args[] = {table_buffer.get(), locations_buffer.get(), weights_buffer.get(), rows_buffer.get(), &kind,
                            &careful,           slab_buffer.get()};
            run_kernel(variant, args, {});
        }
        slab.store(worth_streaming(gradient));
    });
    clear_gaps(groups, gradient);
    output.finish();
}

void backward(MsdaInputs a, const Tensor &grad_output, Gradients gradients) {
    const Variant &of_samples = choose_variant("gka_backward_samples", a.value.dtype);
    const Variant &of_value = choose_variant("gka_backward_value", a.value.dtype);
    set_last_variant("");
    for (std::optional<Tensor> *gradient : {&gradients.value, &gradients.weights}) {
        if (*gradient && (grad_output.empty() || a.is_empty())) {
            fill_zero(**gradient);
            gradient->reset();
        }
    }
    if (!gradients.value && !gradients.weights) {
        return;
    }
    int64_t dropped = 0;
    const LevelTable levels = prepare_levels(a, dropped);
    if (gradients.value) {
        gradients.value = clear_dropped_keys(*gradients.value, a, dropped);
    }
    const int64_t step = batches_at_once(a, {&grad_output});
    for (int64_t first = 0; first < a.B; first += step) {
        const int64_t count = std::min(step, a.B - first);
        const Batches in(of_value, a, first, count);
        const Rows rows = prepare_rows(slice(grad_output, 0, first, count), of_value);
        if (gradients.weights) {
            backward_samples(of_samples, a, levels, in, rows, *gradients.weights);
        }
        if (gradients.value) {
            backward_value(of_value, a, levels, in, rows, *gradients.value);
        }
    }
    set_last_variant((gradients.value ? of_value : of_samples).name);
}

}  // namespace

}  // namespace deformkit

deformkit_status deformkit_geometric_kernel_attention_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                              const DLTensor *level_start_index,
                                                              const DLTensor *sampling_locations,
                                                              const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        const MsdaInputs a = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                              LocationUnit::kCell);
        const Tensor rows = view_rows("output", output, a);
        require_no_overlap(rows,
                           {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
        forward(a, rows);
    });
}

deformkit_status deformkit_geometric_kernel_attention_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                               const DLTensor *level_start_index,
                                                               const DLTensor *sampling_locations,
                                                               const DLTensor *attention_weights, const DLTensor *grad_output,
                                                               DLTensor *grad_value, DLTensor *grad_attention_weights) {
    using namespace deformkit;
    return guarded([&] {
        const MsdaInputs a = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                              LocationUnit::kCell);
        const Tensor rows = view_rows("grad_output", grad_output, a);
        Gradients gradients;
        gradients.value = view_gradient("grad_value", grad_value, a.value);
        gradients.weights = view_gradient("grad_attention_weights", grad_attention_weights, a.attention_weights);
        require_no_overlap({&gradients.value, &gradients.weights}, {&a.value, &a.spatial_shapes, &a.level_start_index,
                                                                    &a.sampling_locations, &a.attention_weights, &rows});
        backward(a, rows, gradients);
    });
}
