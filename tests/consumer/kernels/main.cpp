// Calls one generated kernel itself, without the library: no dispatch, no validation. What the kernel asks of its buffers
// stands at the head of generators/msda_forward_generator.cpp; Halide's axes come fastest first.
#include <deformkit/kernels/HalideRuntime.h>
#include <deformkit/kernels/msda_forward_f32_sse41.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

struct Axis {
    int32_t extent, stride;  // in elements
};

/// A halide_buffer_t over memory that someone else owns.
class Buffer {
public:
    template <typename T>
    Buffer(T *data, const std::vector<Axis> &axes) {
        for (const Axis &axis : axes) {
            axes_.emplace_back(0, axis.extent, axis.stride);
        }
        buffer_.host = reinterpret_cast<uint8_t *>(data);
        buffer_.type = halide_type_of<T>();
        buffer_.dimensions = static_cast<int32_t>(axes_.size());
        buffer_.dim = axes_.data();
    }
    Buffer(const Buffer &) = delete;

    halide_buffer_t *get() { return &buffer_; }

private:
    std::vector<halide_dimension_t> axes_;
    halide_buffer_t buffer_{};
};

}  // namespace

int main() {
    // One level of 2 x 3 cells, one head of four channels, one query with two samples: the map's centre, and its left edge.
    std::vector<float> value;
    for (int key = 0; key < 6; key++) {
        for (int channel = 0; channel < 4; channel++) {
            value.push_back(float((key + 1) * (channel + 1)));
        }
    }
    int32_t level_table[] = {3, 3, /* width of each sample's level */ 2, 2, /* height */ 0, 0 /* first key */};
    float locations[] = {0.5f, 0.5f, 0.0f, 0.25f};
    float weights[] = {0.75f, 0.25f};
    float output[4] = {};

    // The cells of a head lie key_step elements apart, on an axis of stride 1 that spans all of them.
    const int32_t num_keys = 6, key_step = 4, num_samples = 2;
    Buffer value_buffer(value.data(),
                        {{4, 1}, {1, 4}, {(num_keys - 1) * key_step + 1, 1}, {1, 24}});  // channel, head, cell, batch
    Buffer table_buffer(level_table, {{2, 1}, {3, 2}});                                  // sample, row of the table
    Buffer locations_buffer(locations, {{2, 1}, {2, 2}, {1, 4}, {1, 4}});                // xy, sample, query, batch
    Buffer weights_buffer(weights, {{2, 1}, {1, 2}, {1, 2}});                            // sample, query, batch
    Buffer output_buffer(output, {{4, 1}, {1, 4}, {1, 4}, {1, 4}});                      // channel, head, query, batch
    const bool check_cells = false;                                                      // no level reaches beyond the keys
    const int32_t query_tile = 1;                                                        // queries per task
    const int status =
        msda_forward_f32_sse41(value_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(), num_keys,
                               key_step, num_samples, check_cells, query_tile, output_buffer.get());
    if (status != 0) {
        std::fprintf(stderr, "the kernel returned %d\n", status);
        return 1;
    }
    bool right = true;
    for (int channel = 0; channel < 4; channel++) {
        std::printf("%g ", output[channel]);
        right = right && output[channel] == 2.75f * float(channel + 1);  // 0.75 * 3.5 + 0.25 * 0.5
    }
    std::puts(right ? "right" : "wrong");
    return right ? 0 : 1;
}
