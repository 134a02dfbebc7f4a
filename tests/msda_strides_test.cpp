// Tensors that are transposed, sliced, reversed, expanded or offset. What lies between their elements is NaN and stays as it
// was.
#include <algorithm>
#include <cstddef>

#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

struct NamedLayout {
    std::string name;
    MsdaLayout layout;
};

Layout transposed(std::vector<int> order) {
    Layout layout;
    layout.order = std::move(order);
    return layout;
}

Layout stepped(std::vector<int64_t> step) {
    Layout layout;
    layout.step = std::move(step);
    return layout;
}

Layout padded(std::vector<int64_t> pad) {
    Layout layout;
    layout.pad = std::move(pad);
    return layout;
}

Layout reversed(std::vector<bool> axes) {
    Layout layout;
    layout.reversed = std::move(axes);
    return layout;
}

Layout expanded(std::vector<bool> axes) {
    Layout layout;
    layout.expanded = std::move(axes);
    return layout;
}

Layout offset(int64_t bytes) {
    Layout layout;
    layout.byte_offset = bytes;
    return layout;
}

template <typename Change>
NamedLayout with(const std::string &name, Change &&change) {
    NamedLayout named{name, {}};
    change(named.layout);
    return named;
}

std::vector<NamedLayout> layouts() {
    using Lay = MsdaLayout;
    std::vector<NamedLayout> all = {
        // value [B, K, M, D]
        with("value_heads_first",
             [](Lay &l) {
                 l.value = transposed({0, 2, 1, 3});
             }),
        with("value_channels_first",
             [](Lay &l) {
                 l.value = transposed({0, 2, 3, 1});
             }),
        with("value_reversed_axes",
             [](Lay &l) {
                 l.value = transposed({3, 2, 1, 0});
             }),
        with("value_channel_step_2",
             [](Lay &l) {
                 l.value = stepped({1, 1, 1, 2});
             }),
        with("value_key_step_3",
             [](Lay &l) {
                 l.value = stepped({1, 3, 1, 1});
             }),
        with("value_head_pad_1",
             [](Lay &l) {
                 l.value = padded({0, 0, 1, 0});
             }),
        with("value_key_pad_5",
             [](Lay &l) {
                 l.value = padded({0, 5, 0, 0});
             }),
        with("value_negative_channels",
             [](Lay &l) {
                 l.value = reversed({false, false, false, true});
             }),
        with("value_negative_keys",
             [](Lay &l) {
                 l.value = reversed({false, true, false, false});
             }),
        with("value_negative_heads",
             [](Lay &l) {
                 l.value = reversed({false, false, true, false});
             }),
        with("value_negative_batch",
             [](Lay &l) {
                 l.value = reversed({true, false, false, false});
             }),
        with("value_negative_everything",
             [](Lay &l) {
                 l.value = reversed({true, true, true, true});
             }),
        with("value_expanded_batch",
             [](Lay &l) {
                 l.value = expanded({true, false, false, false});
             }),
        with("value_expanded_heads",
             [](Lay &l) {
                 l.value = expanded({false, false, true, false});
             }),
        with("value_expanded_channels",
             [](Lay &l) {
                 l.value = expanded({false, false, false, true});
             }),
        with("value_expanded_keys",
             [](Lay &l) {
                 l.value = expanded({false, true, false, false});
             }),
        with("value_one_number",
             [](Lay &l) {
                 l.value = expanded({true, true, true, true});
             }),
        // indices [L, 2] and [L]
        with("shapes_transposed",
             [](Lay &l) {
                 l.shapes = transposed({1, 0});
             }),
        with("shapes_stepped",
             [](Lay &l) {
                 l.shapes = stepped({2, 3}), l.index_bits = 32;
             }),
        with("shapes_negative",
             [](Lay &l) {
                 l.shapes = reversed({true, true});
             }),
        with("starts_stepped", [](Lay &l) { l.starts = stepped({4}); }),
        with("starts_negative", [](Lay &l) { l.starts = reversed({true}), l.index_bits = 32; }),
        // sampling_locations [B, Q, M, L, P, 2]
        with("locations_xy_first",
             [](Lay &l) {
                 l.locations = transposed({5, 0, 1, 2, 3, 4});
             }),
        with("locations_points_before_levels",
             [](Lay &l) {
                 l.locations = transposed({0, 1, 2, 4, 3, 5});
             }),
        with("locations_heads_before_queries",
             [](Lay &l) {
                 l.locations = transposed({0, 2, 1, 3, 4, 5});
             }),
        with("locations_batch_last",
             [](Lay &l) {
                 l.locations = transposed({1, 2, 3, 4, 5, 0});
             }),
        with("locations_xy_step_2",
             [](Lay &l) {
                 l.locations = stepped({1, 1, 1, 1, 1, 2});
             }),
        with("locations_point_step_2",
             [](Lay &l) {
                 l.locations = stepped({1, 1, 1, 1, 2, 1});
             }),
        with("locations_level_pad_1",
             [](Lay &l) {
                 l.locations = padded({0, 0, 0, 1, 0, 0});
             }),
        with("locations_query_pad_1",
             [](Lay &l) {
                 l.locations = padded({0, 1, 0, 0, 0, 0});
             }),
        with("locations_negative_xy",
             [](Lay &l) {
                 l.locations = reversed({false, false, false, false, false, true});
             }),
        with("locations_negative_points",
             [](Lay &l) {
                 l.locations = reversed({false, false, false, false, true, false});
             }),
        with("locations_negative_levels",
             [](Lay &l) {
                 l.locations = reversed({false, false, false, true, false, false});
             }),
        with("locations_negative_heads",
             [](Lay &l) {
                 l.locations = reversed({false, false, true, false, false, false});
             }),
        with("locations_negative_queries",
             [](Lay &l) {
                 l.locations = reversed({false, true, false, false, false, false});
             }),
        with("locations_negative_batch",
             [](Lay &l) {
                 l.locations = reversed({true, false, false, false, false, false});
             }),
        with("locations_expanded_batch",
             [](Lay &l) {
                 l.locations = expanded({true, false, false, false, false, false});
             }),
        with("locations_expanded_heads",
             [](Lay &l) {
                 l.locations = expanded({false, false, true, false, false, false});
             }),
        with("locations_expanded_levels",
             [](Lay &l) {
                 l.locations = expanded({false, false, false, true, false, false});
             }),
        with("locations_expanded_points",
             [](Lay &l) {
                 l.locations = expanded({false, false, false, false, true, false});
             }),
        with("locations_expanded_xy",
             [](Lay &l) {
                 l.locations = expanded({false, false, false, false, false, true});
             }),
        with("locations_one_place",
             [](Lay &l) {
                 l.locations = expanded({true, true, true, true, true, false});
             }),
        // attention_weights [B, Q, M, L, P]
        with("weights_samples_first",
             [](Lay &l) {
                 l.weights = transposed({3, 4, 0, 1, 2});
             }),
        with("weights_points_before_levels",
             [](Lay &l) {
                 l.weights = transposed({0, 1, 2, 4, 3});
             }),
        with("weights_heads_before_queries",
             [](Lay &l) {
                 l.weights = transposed({0, 2, 1, 3, 4});
             }),
        with("weights_point_step_2",
             [](Lay &l) {
                 l.weights = stepped({1, 1, 1, 1, 2});
             }),
        with("weights_level_pad_3",
             [](Lay &l) {
                 l.weights = padded({0, 0, 0, 3, 0});
             }),
        with("weights_query_pad_1",
             [](Lay &l) {
                 l.weights = padded({0, 1, 0, 0, 0});
             }),
        with("weights_negative_points",
             [](Lay &l) {
                 l.weights = reversed({false, false, false, false, true});
             }),
        with("weights_negative_everything",
             [](Lay &l) {
                 l.weights = reversed({true, true, true, true, true});
             }),
        with("weights_expanded_points",
             [](Lay &l) {
                 l.weights = expanded({false, false, false, false, true});
             }),
        with("weights_expanded_queries",
             [](Lay &l) {
                 l.weights = expanded({false, true, false, false, false});
             }),
        with("weights_one_number",
             [](Lay &l) {
                 l.weights = expanded({true, true, true, true, true});
             }),
        // output [B, Q, M * D] or [B, Q, M, D]
        with("output_query_pad_1",
             [](Lay &l) {
                 l.output = padded({0, 1, 0});
             }),
        with("output_query_pad_32",
             [](Lay &l) {
                 l.output = padded({0, 32, 0});
             }),
        with("output_batch_pad_7",
             [](Lay &l) {
                 l.output = padded({7, 0, 0});
             }),
        with("output_channel_step_2",
             [](Lay &l) {
                 l.output = stepped({1, 1, 2});
             }),
        with("output_queries_last",
             [](Lay &l) {
                 l.output = transposed({0, 2, 1});
             }),
        with("output_batch_last",
             [](Lay &l) {
                 l.output = transposed({1, 2, 0});
             }),
        with("output_negative_channels",
             [](Lay &l) {
                 l.output = reversed({false, false, true});
             }),
        with("output_negative_queries",
             [](Lay &l) {
                 l.output = reversed({false, true, false});
             }),
        with("output_negative_batch",
             [](Lay &l) {
                 l.output = reversed({true, false, false});
             }),
        with("output_by_head", [](Lay &l) { l.output_by_head = true; }),
        with("output_by_head_heads_first",
             [](Lay &l) {
                 l.output = transposed({0, 2, 1, 3}), l.output_by_head = true, l.index_bits = 32;
             }),
        with("output_by_head_channels_first",
             [](Lay &l) {
                 l.output = transposed({0, 2, 3, 1}), l.output_by_head = true;
             }),
        with("output_by_head_head_pad_3",
             [](Lay &l) {
                 l.output = padded({0, 0, 3, 0}), l.output_by_head = true;
             }),
        with("output_by_head_channel_step_3",
             [](Lay &l) {
                 l.output = stepped({1, 1, 1, 3}), l.output_by_head = true;
             }),
        with("output_by_head_negative_heads",
             [](Lay &l) {
                 l.output = reversed({false, false, true, false}), l.output_by_head = true;
             }),
        // all at once
        with("null_strides",
             [](Lay &l) {
                 for (Layout *each : {&l.value, &l.shapes, &l.starts, &l.locations, &l.weights, &l.output}) {
                     each->null_strides = true;
                 }
             }),
        with("byte_offsets",
             [](Lay &l) {
                 l.value = offset(4), l.shapes = offset(32), l.starts = offset(8), l.locations = offset(1000);
                 l.weights = offset(12), l.output = offset(4096);
             }),
        with("everything_odd",
             [](Lay &l) {
                 l.value = transposed({2, 3, 0, 1}), l.value.reversed = {true, false, false, true}, l.value.byte_offset = 20;
                 l.shapes = transposed({1, 0}), l.shapes.reversed = {true, false};
                 l.starts = stepped({3});
                 l.locations = transposed({5, 3, 4, 2, 0, 1}), l.locations.step = {1, 2, 1, 1, 1, 1};
                 l.weights = transposed({4, 3, 2, 1, 0}), l.weights.reversed = {false, true, false, true, false};
                 l.output = transposed({2, 0, 1}), l.output.pad = {1, 0, 2}, l.output.reversed = {false, true, true};
             }),
    };
    return all;
}

void check(const MsdaLayout &layout, Type type) {
    for (const char *name : {"samples_4x4", "channels_7", "channels_3", "samples_1x2", "channels_40", "one_of_everything"}) {
        MsdaWorkload workload = awkward_workload(name);
        workload.batch = 2;
        workload.locations = Locations::kWide;  // inside, also when an expanded axis leaves a single one
        for (const MsdaWorkload &w : {workload, crowded(workload)}) {
            SCOPED_TRACE(::testing::Message() << name << ", Q = " << w.queries);
            const MsdaCase c = as_stored(make_case(w, type), layout);
            const std::vector<double> output = run(c, layout);
            EXPECT_TRUE(matches_reference(c, output));
            EXPECT_TRUE(is_substantial(output));
        }
    }
}

/// Rows of memory may begin anywhere: the result must not depend on the address.
void check_alignment(const Variant &variant) {
    for (const MsdaWorkload &workload : {awkward_workload("samples_4x4"), awkward_workload("samples_1x2"),
                                         awkward_workload("channels_7"), crowded(awkward_workload("samples_4x4"))}) {
        const Type type = variant.type();
        const MsdaCase c = make_case(workload, type);
        const std::vector<double> expected = run(c);
        const size_t bytes = size_of(type);
        std::vector<double> aligned((c.value.size() + 32) * bytes / sizeof(double) + 1);
        auto *memory = reinterpret_cast<unsigned char *>(aligned.data());
        for (size_t shift = 0; shift < 32; shift++) {
            MsdaTensors tensors(c);
            for (size_t i = 0; i < c.value.size(); i++) {
                encode(type, c.value[i], memory + (shift + i) * bytes);
            }
            tensors.value.dl()->data = memory + shift * bytes;
            ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
            EXPECT_TRUE(same_bits(tensors.output.load_numbers(), expected))
                << workload.name << ", shifted by " << shift << " elements";
        }
    }
}

const bool registered = [] {
    for (const NamedLayout &named : layouts()) {
        for_each_msda_forward_variant("Strides", named.name, [=](const Variant &v) { check(named.layout, v.type()); });
    }
    for_each_msda_forward_variant("Strides", "alignment", check_alignment);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
