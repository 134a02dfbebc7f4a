#include "tests/msda_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "tests/support/reference.h"

namespace deformkit::testing {

namespace {

std::vector<double> numbers_of(const std::vector<float> &floats, Type type) {
    // For float64 with digits that float32 has no place for.
    const double scale = type == Type::kF64 ? 1 + 0x1.23456789abcdp-25 : 1;
    std::vector<double> numbers(floats.size());
    std::transform(floats.begin(), floats.end(), numbers.begin(), [=](float x) { return nearest(type, x * scale); });
    return numbers;
}

}  // namespace

MsdaCase make_case(const MsdaWorkload &w, Type type, uint32_t seed) {
    MsdaInputs inputs = make_msda_inputs(w, seed);
    return {type,
            w.batch,
            w.keys(),
            w.heads,
            w.channels,
            w.queries,
            static_cast<int64_t>(w.levels.size()),
            w.points,
            numbers_of(inputs.value, type),
            numbers_of(inputs.sampling_locations, type),
            numbers_of(inputs.attention_weights, type),
            std::move(inputs.spatial_shapes),
            std::move(inputs.level_start_index)};
}

const MsdaWorkload &awkward_workload(const std::string &name) {
    for (const MsdaWorkload &workload : msda_awkward_workloads()) {
        if (workload.name == name) {
            return workload;
        }
    }
    throw std::invalid_argument("no awkward workload " + name);
}

MsdaWorkload crowded(MsdaWorkload workload) {
    const int64_t samples = static_cast<int64_t>(workload.levels.size()) * workload.points;
    if (samples > 0 && workload.queries > 0) {
        workload.queries = std::max(workload.queries, 64 * workload.keys() / (4 * samples) + 1);
    }
    return workload;
}

MsdaCase take_queries(const MsdaCase &from, int64_t queries) {
    MsdaCase to = from;
    to.Q = std::min(queries, from.Q);
    const int64_t per_query = from.M * from.L * from.P;
    to.locations.clear();
    to.weights.clear();
    for (int64_t b = 0; b < from.B; b++) {
        for (int64_t i = 0; i < to.Q; i++) {
            const int64_t q = b * from.Q + i * from.Q / to.Q;
            to.locations.insert(to.locations.end(), &from.locations[q * per_query * 2],
                                &from.locations[q * per_query * 2] + per_query * 2);
            to.weights.insert(to.weights.end(), &from.weights[q * per_query], &from.weights[q * per_query] + per_query);
        }
    }
    return to;
}

void avoid_ties(MsdaCase &c) {
    for (size_t i = 0; i < c.locations.size(); i++) {
        const int64_t level = static_cast<int64_t>(i) / 2 / c.P % c.L;
        const auto extent = static_cast<double>(c.shapes[2 * level + (i % 2 == 0 ? 1 : 0)]);
        const double position = c.locations[i] * extent - 0.5, cell = std::floor(position);
        c.locations[i] = nearest(c.type, (cell + 0.1 + 0.8 * (position - cell) + 0.5) / extent);
    }
}

MsdaLayout MsdaLayout::guarded(Guard guard) {
    MsdaLayout layout;
    for (Layout *each : {&layout.value, &layout.shapes, &layout.starts, &layout.locations, &layout.weights, &layout.output}) {
        each->guard = guard;
    }
    return layout;
}

namespace {

DLDataType index_dtype(const MsdaLayout &layout) {
    return {kDLInt, static_cast<uint8_t>(layout.index_bits), 1};
}

void store_index(GuardedTensor &tensor, const std::vector<int64_t> &data, int bits) {
    if (bits == 32) {
        tensor.store(std::vector<int32_t>(data.begin(), data.end()));
    } else {
        tensor.store(data);
    }
}

template <typename T>
View<T> dense_view(const T *data, const std::vector<int64_t> &shape) {
    return {data, shape, dense_strides(shape)};
}

uint64_t bits_of(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

}  // namespace

MsdaTensors::MsdaTensors(const MsdaCase &c, const MsdaLayout &layout)
    : value(dtype_of(c.type), c.value_shape(), layout.value),
      shapes(index_dtype(layout), c.shapes_shape(), layout.shapes),
      starts(index_dtype(layout), c.starts_shape(), layout.starts),
      locations(dtype_of(c.type), c.locations_shape(), layout.locations),
      weights(dtype_of(c.type), c.weights_shape(), layout.weights),
      output(dtype_of(c.type), layout.output_by_head ? c.output_by_head_shape() : c.output_shape(), layout.output) {
    value.store_numbers(c.value);
    store_index(shapes, c.shapes, layout.index_bits);
    store_index(starts, c.starts, layout.index_bits);
    locations.store_numbers(c.locations);
    weights.store_numbers(c.weights);
    for (GuardedTensor *input : {&value, &shapes, &starts, &locations, &weights}) {
        input->make_read_only();
    }
}

deformkit_status MsdaTensors::call() {
    return deformkit_msda_forward(value.dl(), shapes.dl(), starts.dl(), locations.dl(), weights.dl(), output.dl());
}

MsdaCase as_stored(const MsdaCase &c, const MsdaLayout &layout) {
    MsdaTensors tensors(c, layout);
    MsdaCase stored = c;
    stored.value = tensors.value.load_numbers();
    stored.locations = tensors.locations.load_numbers();
    stored.weights = tensors.weights.load_numbers();
    return stored;
}

std::vector<double> run(const MsdaCase &c, const MsdaLayout &layout) {
    MsdaTensors tensors(c, layout);
    EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_EQ(tensors.output.elements_in_poison(), 0) << "elements of the output were not written";
    EXPECT_TRUE(tensors.output.surroundings_intact()) << "something was written beside or between the output's elements";
    return tensors.output.load_numbers();
}

::testing::AssertionResult matches_reference(const MsdaCase &unrounded, const std::vector<double> &output) {
    MsdaCase c = unrounded;
    for (std::vector<double> *numbers : {&c.value, &c.locations, &c.weights}) {
        for (double &number : *numbers) {
            number = nearest(c.type, number);
        }
    }
    if (output.size() != static_cast<size_t>(c.B * c.Q * c.M * c.D)) {
        return ::testing::AssertionFailure() << "an output of " << output.size() << " elements";
    }
    // A part of the queries at a time: the references of the largest model would take half a gigabyte.
    constexpr int64_t kQueries = 4096;
    const int64_t per_query = c.M * c.L * c.P, row = c.M * c.D;
    int64_t wrong = 0;
    ::testing::AssertionResult failure = ::testing::AssertionFailure();
    for (int64_t b = 0; b < c.B; b++) {
        for (int64_t q = 0; q < c.Q; q += kQueries) {
            const int64_t queries = std::min(kQueries, c.Q - q), first = b * c.Q + q;
            std::vector<double> magnitude, sensitivity;
            const std::vector<double> expected = msda_forward_reference(
                dense_view(c.value.data() + b * c.K * row, {1, c.K, c.M, c.D}), dense_view(c.shapes.data(), c.shapes_shape()),
                dense_view(c.starts.data(), c.starts_shape()),
                dense_view(c.locations.data() + first * per_query * 2, {1, queries, c.M, c.L, c.P, 2}),
                dense_view(c.weights.data() + first * per_query, {1, queries, c.M, c.L, c.P}), &magnitude, &sensitivity,
                rounding_of_arithmetic(c.type));
            for (size_t i = 0; i < expected.size(); i++) {
                const double got = output[first * row + i], want = expected[i];
                const double tolerance = msda_forward_tolerance(c.type, c.L * c.P, magnitude[i], sensitivity[i]);
                if (!agrees(c.type, got, want, tolerance) && ++wrong <= 5) {
                    const int64_t at = first * row + static_cast<int64_t>(i);
                    failure << "output[b=" << b << ", q=" << at / row % c.Q << ", m=" << at % row / c.D << ", d=" << at % c.D
                            << "] is " << got << ", the reference " << want << ", the tolerance " << tolerance << "\n";
                }
            }
        }
    }
    return wrong == 0 ? ::testing::AssertionSuccess() : failure << wrong << " of " << output.size() << " outputs are wrong";
}

::testing::AssertionResult is_substantial(const std::vector<double> &output) {
    const auto zeros = std::count(output.begin(), output.end(), 0.0);
    if (output.empty() || zeros * 2 > static_cast<int64_t>(output.size())) {
        return ::testing::AssertionFailure() << zeros << " of " << output.size() << " outputs are zero";
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(const std::vector<double> &a, const std::vector<double> &b) {
    if (a.size() != b.size()) {
        return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
    }
    for (size_t i = 0; i < a.size(); i++) {
        if (bits_of(a[i]) != bits_of(b[i])) {
            return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
        }
    }
    return ::testing::AssertionSuccess();
}

}  // namespace deformkit::testing
