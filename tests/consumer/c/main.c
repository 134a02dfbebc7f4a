#include <deformkit/deformkit.h>
#include <stdio.h>

static DLTensor tensor(void *data, DLDataTypeCode code, uint8_t bits, int32_t ndim, int64_t *shape) {
    DLTensor t = {0};
    t.data = data;
    t.device.device_type = kDLCPU;
    t.dtype.code = (uint8_t)code;
    t.dtype.bits = bits;
    t.dtype.lanes = 1;
    t.ndim = ndim;
    t.shape = shape; /* strides stay NULL: dense */
    return t;
}

int main(void) {
    /* One level of 2 x 3 cells, one head of two channels, one query with two points. */
    float value[] = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60};
    int64_t level_shapes[] = {2, 3};
    int64_t level_starts[] = {0};
    float locations[] = {0.5f, 0.5f,   /* the map's centre: halfway between the cells of 2 and 5 */
                         0.0f, 0.25f}; /* its left edge: half the cell of 1, half outside, which counts as zero */
    float weights[] = {0.75f, 0.25f};
    float output[2];

    int64_t value_shape[] = {1, 6, 1, 2};           /* batch, cells, heads, channels */
    int64_t shapes_shape[] = {1, 2};                /* levels, (H, W) */
    int64_t starts_shape[] = {1};                   /* levels */
    int64_t locations_shape[] = {1, 1, 1, 1, 2, 2}; /* batch, queries, heads, levels, points, (x, y) */
    int64_t weights_shape[] = {1, 1, 1, 1, 2};
    int64_t output_shape[] = {1, 1, 2}; /* batch, queries, heads * channels */

    DLTensor v = tensor(value, kDLFloat, 32, 4, value_shape);
    DLTensor hw = tensor(level_shapes, kDLInt, 64, 2, shapes_shape);
    DLTensor start = tensor(level_starts, kDLInt, 64, 1, starts_shape);
    DLTensor xy = tensor(locations, kDLFloat, 32, 6, locations_shape);
    DLTensor w = tensor(weights, kDLFloat, 32, 5, weights_shape);
    DLTensor out = tensor(output, kDLFloat, 32, 3, output_shape);

    if (deformkit_msda_forward(&v, &hw, &start, &xy, &w, &out) != DEFORMKIT_OK) {
        fprintf(stderr, "%s\n", deformkit_last_error());
        return 1;
    }
    printf("%g %g\n", output[0], output[1]); /* 0.75 * 3.5 + 0.25 * 0.5 = 2.75, and ten times that */
    return !(output[0] == 2.75f && output[1] == 27.5f);
}
