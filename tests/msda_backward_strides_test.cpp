// MSDA backward with tensors that are transposed, sliced, reversed, expanded or offset. What lies between their elements is NaN
// and stays as it was.
#include <algorithm>
#include <numeric>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

struct NamedLayout {
    std::string name;
    Layout layout;
};

/// What can be done to a tensor of so many axes: one thing at a time.
std::vector<NamedLayout> layouts(int axes, bool is_input) {
    std::vector<NamedLayout> all;
    const auto add = [&](const std::string &name, auto &&change) {
        all.push_back({name, {}});
        change(all.back().layout);
    };
    const std::vector<int64_t> ones(axes, 1), zeros(axes, 0);
    for (int axis = 0; axis < axes; axis++) {
        const std::string name = "_axis_" + std::to_string(axis);
        add("step_2" + name, [&](Layout &l) { l.step = ones, l.step[axis] = 2; });
        add("pad_3" + name, [&](Layout &l) { l.pad = zeros, l.pad[axis] = 3; });
        add("negative" + name, [&](Layout &l) { l.reversed.assign(axes, false), l.reversed[axis] = true; });
        if (is_input) {
            add("expanded" + name, [&](Layout &l) { l.expanded.assign(axes, false), l.expanded[axis] = true; });
        }
        if (axis + 1 < axes) {
            add("exchanged" + name, [&](Layout &l) {
                l.order.resize(axes);
                std::iota(l.order.begin(), l.order.end(), 0);
                std::swap(l.order[axis], l.order[axis + 1]);
            });
        }
    }
    if (axes > 1) {
        add("transposed", [&](Layout &l) {
            l.order.resize(axes);
            std::iota(l.order.rbegin(), l.order.rend(), 0);
        });
        add("last_axis_first", [&](Layout &l) {
            l.order.resize(axes);
            std::iota(l.order.begin() + 1, l.order.end(), 0);
            l.order[0] = axes - 1;
        });
        add("first_axis_last_negative_padded", [&](Layout &l) {
            l.order.resize(axes);
            std::iota(l.order.begin(), l.order.end() - 1, 1);
            l.order[axes - 1] = 0;
            l.reversed.assign(axes, true);
            l.pad = ones;
        });
    }
    if (is_input) {
        add("one_number", [&](Layout &l) { l.expanded.assign(axes, true); });
    }
    add("byte_offset", [](Layout &l) { l.byte_offset = 72; });
    add("null_strides", [](Layout &l) { l.null_strides = true; });
    return all;
}

void check(const MsdaBackwardLayout &layout, Type type) {
    for (MsdaWorkload w :
         {awkward_workload("samples_3x4"), awkward_workload("samples_1x2"), crowded(awkward_workload("channels_7"))}) {
        SCOPED_TRACE(::testing::Message() << w.name << ", Q = " << w.queries);
        w.batch = 2;
        w.locations = Locations::kWide;  // inside, also when an expanded axis leaves a single one
        const MsdaBackwardCase c = as_stored(make_backward_case(w, type), layout);
        const MsdaGradients gradients = run(c, layout);
        EXPECT_TRUE(matches_reference(c, gradients));
        EXPECT_TRUE(is_substantial(gradients, 0, 0));  // of a map of one number, few locations have a gradient
    }
}

/// Rows of memory may begin anywhere: the result must not depend on the address.
void check_alignment(Type type) {
    for (const char *name : {"samples_4x4", "channels_7"}) {
        for (const MsdaWorkload &workload : {awkward_workload(name), crowded(awkward_workload(name))}) {
            const MsdaBackwardCase c = make_backward_case(workload, type);
            const MsdaGradients expected = run(c);
            const int64_t bytes = static_cast<int64_t>(size_of(type));
            for (int64_t shift = 1; shift < 32; shift += 2) {
                MsdaBackwardTensors tensors(c);
                std::vector<unsigned char> value((c.value.size() + 32) * bytes), grad(value.size()),
                    upstream((c.grad_output.size() + 32) * bytes);
                const auto move = [&](GuardedTensor &tensor, std::vector<unsigned char> &memory, size_t elements) {
                    std::copy_n(static_cast<const unsigned char *>(tensor.dl()->data), elements * bytes,
                                &memory[shift * bytes]);
                    tensor.dl()->data = &memory[shift * bytes];
                };
                move(tensors.value, value, c.value.size());
                move(tensors.grad_output, upstream, c.grad_output.size());
                move(tensors.grad_value, grad, c.value.size());
                ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
                GuardedTensor moved(dtype_of(type), c.value_shape());
                std::copy_n(&grad[shift * bytes], c.value.size() * bytes, static_cast<unsigned char *>(moved.dl()->data));
                MsdaGradients gradients = tensors.gradients();
                gradients.value = moved.load_numbers();
                EXPECT_TRUE(same_bits(gradients, expected)) << workload.name << ", shifted by " << shift << " elements";
            }
        }
    }
}

/// All tensors odd at once.
MsdaBackwardLayout everything_odd() {
    MsdaBackwardLayout l;
    l.value.order = {2, 3, 0, 1}, l.value.reversed = {true, false, false, true}, l.value.byte_offset = 24;
    l.shapes.order = {1, 0}, l.shapes.reversed = {true, false};
    l.starts.step = {3};
    l.locations.order = {5, 3, 4, 2, 0, 1}, l.locations.step = {1, 2, 1, 1, 1, 1};
    l.weights.order = {4, 3, 2, 1, 0}, l.weights.reversed = {false, true, false, true, false};
    l.grad_output.order = {2, 0, 1}, l.grad_output.pad = {1, 0, 2}, l.grad_output.reversed = {false, true, true};
    l.grad_value.order = {3, 1, 0, 2}, l.grad_value.step = {1, 1, 2, 1}, l.grad_value.reversed = {false, true, false, true};
    l.grad_locations.order = {4, 5, 0, 1, 3, 2}, l.grad_locations.pad = {0, 2, 0, 1, 0, 0};
    l.grad_weights.order = {1, 0, 3, 4, 2}, l.grad_weights.reversed = {true, true, false, false, true};
    return l;
}

const bool registered = [] {
    const auto add = [](const std::string &name, const MsdaBackwardLayout &layout) {
        for_each_msda_backward_variant("Strides", name, [=](const Variant &, Type type) { check(layout, type); });
    };
    struct Member {
        std::string name;
        Layout MsdaBackwardLayout::*layout;
        int axes;
        bool is_input;
    };
    for (const Member &member : {Member{"value", &MsdaBackwardLayout::value, 4, true},
                                 {"locations", &MsdaBackwardLayout::locations, 6, true},
                                 {"weights", &MsdaBackwardLayout::weights, 5, true},
                                 {"grad_output", &MsdaBackwardLayout::grad_output, 3, true},
                                 {"grad_value", &MsdaBackwardLayout::grad_value, 4, false},
                                 {"grad_locations", &MsdaBackwardLayout::grad_locations, 6, false},
                                 {"grad_weights", &MsdaBackwardLayout::grad_weights, 5, false}}) {
        for (const NamedLayout &named : layouts(member.axes, member.is_input)) {
            MsdaBackwardLayout layout;
            layout.*member.layout = named.layout;
            add(member.name + "_" + named.name, layout);
        }
    }
    for (const NamedLayout &named : layouts(4, true)) {
        MsdaBackwardLayout layout;
        layout.grad_by_head = true;
        layout.grad_output = named.layout;
        add("grad_output_by_head_" + named.name, layout);
    }
    add("everything_odd", everything_odd());
    for_each_msda_backward_variant("Strides", "alignment", [](const Variant &, Type type) { check_alignment(type); });
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
