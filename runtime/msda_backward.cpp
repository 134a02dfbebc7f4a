// Multi-scale deformable attention, backward: from the caller's tensors to kernels.
#include "msda_backward.h"

#include <algorithm>
#include <optional>

#include "buffer.h"
#include "dispatch.h"
#include "error.h"
#include "gradients.h"
#include "layout.h"
#include "parallel.h"
#include "slabs.h"

namespace deformkit {

namespace {

// Slabs to have at least, where there is enough to do: what keeps 64 cores busy.
constexpr int64_t kSlabs = 64;
// A further part costs a pass over its cells to clear them and one to add them up: it has to write to each several times.
constexpr int64_t kWritesPerCell = 8;
constexpr int64_t kMinSamplesPerSlab = 8192;
// Dot products of so many queries at a time: their results, 24 bytes for a sample, stay in L2.
constexpr int64_t kQueryTile = 64;

struct Gradients {
    std::optional<Tensor> value, locations, weights;
};

/// Whether anything in `rows` is NaN or infinite.
bool any_non_finite(const Tensor &rows) {
    const Variant &variant = choose_variant("rows_magnitude", rows.dtype);
    const int64_t bits = std::max(32, static_cast<int>(rows.dtype.bits)), queries = 256;
    const int64_t chunks = divide_up(rows.shape[1], queries);
    std::atomic<bool> found{false};
    parallel_for(static_cast<int>(rows.shape[0] * chunks), [&](int task) {
        const int64_t first = task % chunks * queries;
        const Tensor part = slice(item(rows, 0, task / chunks), 0, first, std::min(queries, rows.shape[1] - first));
        uint64_t largest = 0;
        Tensor result;
        result.name = "magnitude";
        result.data = reinterpret_cast<unsigned char *>(&largest);
        result.dtype = {kDLUInt, static_cast<uint8_t>(bits), 1};
        result.ndim = 1;
        result.shape[0] = result.strides[0] = 1;
        Buffer input(part), output(result);
        void *args[] = {input.get(), output.get()};
        run_kernel(variant, args, {input.get(), output.get()});
        if (largest >= (bits == 64 ? 0xffe0000000000000u : 0xff000000u)) {
            found = true;
        }
    });
    return found;
}

void backward_samples(const MsdaInputs &a, const Tensor &table, bool careful, const Tensor &grad_output,
                      const Gradients &gradients, int64_t first, int64_t count) {
    const Variant &variant = choose_variant("msda_backward_samples", a.value.dtype);
    const bool pays = a.reads_often();
    const Cells value = prepare_value(a, variant, pays, first, count);
    const Rows rows = prepare_rows(slice(grad_output, 0, first, count), variant, false);
    const OwnedTensor locations = joined_input(slice(a.sampling_locations, 0, first, count), variant);
    const OwnedTensor weights = joined_input(slice(a.attention_weights, 0, first, count), variant);
    std::optional<JoinedOutput> grad_locations, grad_weights;
    if (gradients.locations) {
        grad_locations.emplace(slice(*gradients.locations, 0, first, count), variant);
    }
    if (gradients.weights) {
        grad_weights.emplace(slice(*gradients.weights, 0, first, count), variant);
    }

    const int64_t tile = std::clamp<int64_t>(divide_up(a.Q * count, num_threads() * 4), 1, kQueryTile);
    const int64_t tiles = divide_up(a.Q, tile);
    parallel_for(static_cast<int>(count * tiles), [&](int task) {
        const int64_t b = task / tiles, begin = task % tiles * tile, queries = std::min(tile, a.Q - begin);
        const auto part = [&](const Tensor &tensor) { return slice(item(tensor, 0, b), 0, begin, queries); };
        // What is not wanted has no queries.
        const auto output = [&](const std::optional<JoinedOutput> &wanted, const Tensor &like) {
            return wanted ? part(wanted->tensor()) : slice(part(like), 0, 0, 0);
        };
        Buffer value_buffer(item(value.tensor, 0, b)), table_buffer(table), rows_buffer(part(rows.tensor));
        Buffer locations_buffer(part(locations.tensor)), weights_buffer(part(weights.tensor));
        Buffer grad_locations_buffer(output(grad_locations, locations.tensor));
        Buffer grad_weights_buffer(output(grad_weights, weights.tensor));
        value_buffer.flatten_keys(2);
        int32_t num_keys = value.num_keys, key_step = value.key_step, num_samples = static_cast<int32_t>(a.samples());
        bool check = careful;
        void *args[] = {value_buffer.get(),
                        table_buffer.get(),
                        locations_buffer.get(),
                        weights_buffer.get(),
                        rows_buffer.get(),
                        &num_keys,
                        &key_step,
                        &num_samples,
                        &check,
                        grad_locations_buffer.get(),
                        grad_weights_buffer.get()};
        run_kernel(variant, args, {});
    });
    if (grad_locations) {
        grad_locations->finish();
    }
    if (grad_weights) {
        grad_weights->finish();
    }
}

/// The group's columns of the level table, with keys counted from its first.
LevelTable group_table(const LevelTable &levels, const SlabGroup &group) {
    LevelTable table;
    table.columns = group.num_samples;
    table.careful = levels.careful;
    for (int row = 0; row < 3; row++) {
        const auto from = levels.rows.begin() + row * levels.columns + group.first_sample;
        table.rows.insert(table.rows.end(), from, from + group.num_samples);
    }
    for (int64_t i = 0; i < group.num_samples; i++) {
        table.rows[2 * group.num_samples + i] -= static_cast<int32_t>(group.first_key);
    }
    return table;
}

void scatter(const Variant &variant, const MsdaInputs &a, const SlabGroup &group, const Tensor &table, bool careful, bool exact,
             const Tensor &rows, const Tensor &locations, const Tensor &weights, const Tensor &slab, int64_t part, int64_t m) {
    const int64_t begin = a.Q * part / group.parts, end = a.Q * (part + 1) / group.parts;
    const auto samples = [&](const Tensor &tensor) {
        return slice(slice(tensor, 1, m * a.samples() + group.first_sample, group.num_samples), 0, begin, end - begin);
    };
    Buffer table_buffer(table), locations_buffer(samples(locations)), weights_buffer(samples(weights));
    Buffer rows_buffer(slice(item(rows, 1, m), 0, begin, end - begin)), slab_buffer(slab);
    void *args[] = {table_buffer.get(), locations_buffer.get(), weights_buffer.get(), rows_buffer.get(), &careful, &exact,
                    slab_buffer.get()};
    run_kernel(variant, args, {});
}

void backward_value(const MsdaInputs &a, const LevelTable &levels, const std::vector<SlabGroup> &groups,
                    const Tensor &grad_output, const Tensor &all_grad_value, int64_t first, int64_t count) {
    const Variant &variant = choose_variant("msda_backward_value", a.value.dtype);
    const Rows rows = prepare_rows(slice(grad_output, 0, first, count), variant, a.reads_often());
    const bool exact = any_non_finite(rows.tensor);
    const OwnedTensor locations = joined_input(slice(a.sampling_locations, 0, first, count), variant);
    const OwnedTensor weights = joined_input(slice(a.attention_weights, 0, first, count), variant);

    const Tensor target = slice(all_grad_value, 0, first, count);
    OwnedTensor packed;
    const bool copy = !dense(target, 3) || !addressable(target, variant);
    if (copy) {
        packed = allocate_like(target, {0, 1, 2, 3});
    }
    const Tensor grad_value = copy ? packed.tensor : target;
    // Few samples: straight into grad_value, where a slab would only be cleared and copied.
    const bool direct =
        a.value.dtype.bits >= 32 && !a.reads_often() && a.D % kChannelMultiple == 0 && grad_value.strides[1] > 0;

    struct Group {
        const SlabGroup *plan;
        LevelTable levels;
        Tensor table;
        Slabs slabs;
    };
    std::vector<Group> work(groups.size());
    std::vector<int> first_task(groups.size() + 1, 0);
    for (size_t g = 0; g < groups.size(); g++) {
        Group &group = work[g];
        group.plan = &groups[g];
        group.levels = group_table(levels, groups[g]);
        group.table = table_tensor(group.levels);
        const bool in_place = direct && groups[g].parts == 1 && groups[g].num_keys >= 2;
        if (!in_place) {
            const int64_t cells = std::max<int64_t>(groups[g].num_keys, 2);
            group.slabs = allocate_slabs(a.value.dtype, count, groups[g].parts, a.M, cells, a.D, /*heads_outside=*/true);
        }
        first_task[g + 1] = first_task[g] + static_cast<int>(count * groups[g].parts * a.M);
    }
    parallel_for(first_task.back(), [&](int task) {
        const size_t g = std::upper_bound(first_task.begin(), first_task.end(), task) - first_task.begin() - 1;
        const Group &group = work[g];
        const int64_t i = task - first_task[g], parts = group.plan->parts;
        const int64_t m = i % a.M, part = i / a.M % parts, b = i / (a.M * parts);
        const Tensor slab = group.slabs.tensor.data != nullptr
                                ? item(item(item(group.slabs.tensor, 0, b), 0, part), 0, m)
                                : item(slice(item(grad_value, 0, b), 0, group.plan->first_key, group.plan->num_keys), 1, m);
        scatter(variant, a, *group.plan, group.table, levels.careful, exact, item(rows.tensor, 0, b),
                item(locations.tensor, 0, b), item(weights.tensor, 0, b), slab, part, m);
    });
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const Group &group : work) {
        if (group.slabs.tensor.data != nullptr) {
            reduce_slabs(group.slabs.tensor, group.plan->first_key, group.plan->num_keys, grad_value);
        }
        ranges.emplace_back(group.plan->first_key, group.plan->num_keys);
    }
    clear_gaps(ranges, grad_value);
    if (copy) {
        copy_elements(packed.tensor, target);
    }
}

void backward(MsdaInputs a, const Tensor &grad_output, const Gradients &wanted) {
    Gradients gradients = wanted;
    set_last_variant("");
    for (std::optional<Tensor> *gradient : {&gradients.value, &gradients.locations, &gradients.weights}) {
        if (*gradient && (*gradient)->empty()) {
            gradient->reset();
        }
    }
    // Also where nothing is to be done, a type that nothing serves is refused.
    const char *name = nullptr;
    for (const char *pass : {"msda_backward_samples", "msda_backward_value"}) {
        name = choose_variant(pass, a.value.dtype).name;
    }
    if (grad_output.empty() || a.K == 0 || a.L == 0 || a.P == 0) {
        for (const std::optional<Tensor> *gradient : {&gradients.value, &gradients.locations, &gradients.weights}) {
            if (*gradient) {
                fill_zero(**gradient);
            }
        }
        return;
    }
    LevelTable levels = make_level_table(a.spatial_shapes, a.level_start_index, a.M, a.P, a.K);
    const int64_t all_keys = a.K, dropped = drop_unused_keys(a, levels);
    const Tensor table = table_tensor(levels);
    const int64_t step = batches_at_once(a, {&grad_output});
    if (gradients.locations || gradients.weights) {
        for (int64_t first = 0; first < a.B; first += step) {
            backward_samples(a, table, levels.careful, grad_output, gradients, first, std::min(step, a.B - first));
        }
        name = choose_variant("msda_backward_samples", a.value.dtype).name;
    }
    if (gradients.value) {
        Tensor &grad_value = *gradients.value;
        if (a.K != all_keys) {
            fill_zero(slice(grad_value, 1, 0, dropped));
            fill_zero(slice(grad_value, 1, dropped + a.K, all_keys - dropped - a.K));
            grad_value = slice(grad_value, 1, dropped, a.K);
        }
        const std::vector<SlabGroup> groups = plan_slabs(levels, a);
        for (int64_t first = 0; first < a.B; first += step) {
            backward_value(a, levels, groups, grad_output, grad_value, first, std::min(step, a.B - first));
        }
        name = choose_variant("msda_backward_value", a.value.dtype).name;
    }
    set_last_variant(name);
}

}  // namespace

std::vector<SlabGroup> plan_slabs(const LevelTable &levels, const MsdaInputs &a) {
    std::vector<SlabGroup> groups;
    const int64_t samples = a.samples();
    bool separate = !levels.careful;
    for (int64_t l = 0; l < a.L; l++) {
        const int64_t s = l * a.P;
        const int64_t width = levels.rows[s], height = levels.rows[levels.columns + s];
        if (width > 0 && height > 0) {
            groups.push_back({s, a.P, levels.rows[2 * levels.columns + s], width * height});
        }
    }
    for (size_t i = 0; i < groups.size() && separate; i++) {
        for (size_t j = 0; j < i; j++) {
            separate &= groups[i].first_key + groups[i].num_keys <= groups[j].first_key ||
                        groups[j].first_key + groups[j].num_keys <= groups[i].first_key;
        }
    }
    if (!separate) {
        groups = {{0, samples, 0, a.K}};
    }
    const int64_t slabs = std::max<int64_t>(1, a.B * a.M * static_cast<int64_t>(groups.size()));
    for (SlabGroup &group : groups) {
        const int64_t of_head = a.Q * group.num_samples;
        group.parts = std::max<int64_t>(1, std::min({divide_up(kSlabs, slabs), of_head / kMinSamplesPerSlab,
                                                     of_head * 4 / (group.num_keys * kWritesPerCell)}));
    }
    // The largest first: what is left at the end is small.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const SlabGroup &x, const SlabGroup &y) { return x.num_samples * y.parts > y.num_samples * x.parts; });
    return groups;
}

}  // namespace deformkit

deformkit_status deformkit_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                         const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                         const DLTensor *attention_weights, const DLTensor *grad_output, DLTensor *grad_value,
                                         DLTensor *grad_sampling_locations, DLTensor *grad_attention_weights) {
    using namespace deformkit;
    return guarded([&] {
        const MsdaInputs a = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
        const Tensor rows = view_rows("grad_output", grad_output, a);
        Gradients gradients;
        gradients.value = view_gradient("grad_value", grad_value, a.value);
        gradients.locations = view_gradient("grad_sampling_locations", grad_sampling_locations, a.sampling_locations);
        gradients.weights = view_gradient("grad_attention_weights", grad_attention_weights, a.attention_weights);
        require_no_overlap(
            {&gradients.value, &gradients.locations, &gradients.weights},
            {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights, &rows});
        backward(a, rows, gradients);
    });
}
