// What GPU kernels of multi-scale deformable attention and of geometric kernel attention read of samples. Minima are zero. Channels
// come in words (word_type), aligned as lanes_aligned says, single numbers as bits_type; strides of numbers are free. Index tensors
// are the caller's.
#pragma once

#include "generators/shared/buffers.h"
#include "generators/shared/device.h"

namespace deformkit {

/// spatial_shapes [words, 2, L];  level_start_index [words, L];  sampling_locations [2, P, L, M, Q, B].
template <typename T, typename Knobs>
class SamplesGpuGenerator : public VariantGenerator<T, Knobs> {
public:
    Halide::GeneratorInput<Halide::Buffer<int32_t, 3>> spatial_shapes{"spatial_shapes"};
    Halide::GeneratorInput<Halide::Buffer<int32_t, 2>> level_start_index{"level_start_index"};
    Halide::GeneratorInput<Halide::Buffer<void, 6>> sampling_locations{"sampling_locations"};
    Halide::GeneratorInput<int32_t> num_keys{"num_keys"};
    Halide::GeneratorInput<int32_t> query_tile{"query_tile"};  // queries of a block of threads

protected:
    using Expr = Halide::Expr;
    using Func = Halide::Func;
    const Halide::Var xy{"xy"}, s{"s"}, m{"m"}, q{"q"}, b{"b"}, row{"row"};

    Expr num_samples() { return num_points() * sampling_locations.dim(2).extent(); }
    Expr num_queries() { return sampling_locations.dim(4).extent(); }

    /// Behind the last sample and query of a block, what is read is the last's.
    Func level_table() {
        if (!table_.defined()) {
            const LevelTensors tensors{spatial_shapes, level_start_index, spatial_shapes.dim(0).extent(), num_keys};
            table_(s, row) = level_row(tensors, {sample() / num_points()}, row);
        }
        return table_;
    }
    Func locations() {
        Func wide("locations");
        wide(xy, s, m, q, b) = number(sampling_locations(xy, point(), level(), m, query(), b));
        return wide;
    }
    /// Of [P, L, M, Q, B], such as attention_weights.
    template <typename Buffer>
    Func by_samples(Buffer &numbers) {
        Func wide("numbers");
        wide(s, m, q, b) = number(numbers(point(), level(), m, query(), b));
        return wide;
    }
    /// Of [D, M, Q, B], in words or not.
    template <typename Buffer>
    Func rows(Buffer &buffer) {
        const Halide::Var d{"d"};
        Func rows("rows");
        rows(d, m, q, b) = buffer(d, m, query(), b);
        return rows;
    }
    template <typename Buffer>
    Func wide_rows(Buffer &buffer) {
        const Func bits = rows(buffer);
        Func wide("wide_rows");
        wide(Halide::_) = number(bits(Halide::_));
        return wide;
    }

    void constrain() {
        from_zero(spatial_shapes, level_start_index, sampling_locations);
        spatial_shapes.dim(1).set_extent(2);
        sampling_locations.dim(0).set_extent(2);
    }

private:
    /// Widened; an integer as it is.
    Expr number(const Expr &bits) {
        return bits.type().is_int() ? bits : widen_bits(this->storage_type, bits, this->get_target());
    }
    Expr query() { return min(q, num_queries() - 1); }
    Expr num_points() { return sampling_locations.dim(1).extent(); }
    Expr sample() { return min(s, num_samples() - 1); }
    // Divided once for the table, not once for each sample.
    Expr level() { return unsafe_promise_clamped(level_table()(s, kLevel), 0, sampling_locations.dim(2).extent() - 1); }
    Expr point() { return unsafe_promise_clamped(sample() - level() * num_points(), 0, num_points() - 1); }

    Func table_{"level_table"};
};

}  // namespace deformkit
