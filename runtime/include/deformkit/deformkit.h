/* deformkit: deformable sampling operators for detection transformers and camera (BEV) perception.
 *
 * Tensors are DLPack's DLTensor. Shapes are row-major (last axis fastest). Any strides are accepted (transposed, sliced,
 * expanded, negative); NULL strides mean dense. Outputs take any strides too, but must not overlap themselves or an input.
 *
 * Every function returns DEFORMKIT_OK or a status that says what kind of thing was wrong; deformkit_last_error() then tells
 * which argument, what was expected and what came. A refused call writes nothing. Outputs are written in full, never
 * accumulated into. All functions may be called from many threads at once. Results are the same bit for bit for any number of
 * threads.
 *
 * Environment: DEFORMKIT_TARGET forces a variant by its target's name (sse41, avx2, avx512, opencl); DEFORMKIT_NUM_THREADS sets
 * the number of threads; DEFORMKIT_VERBOSE=1 logs to stderr which variant ran and why others were rejected. Each is read
 * once, at the first call that needs it.
 */
#ifndef DEFORMKIT_DEFORMKIT_H
#define DEFORMKIT_DEFORMKIT_H

#include <dlpack/dlpack.h>

#if defined(__GNUC__)
#define DEFORMKIT_API __attribute__((visibility("default")))
#else
#define DEFORMKIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum deformkit_status {
    DEFORMKIT_OK = 0,
    DEFORMKIT_NULL_ARGUMENT = 1,      /* an argument, or the data of a tensor that is not empty, is NULL */
    DEFORMKIT_WRONG_DTYPE = 2,        /* a type that the operator does not take, or types that do not go together */
    DEFORMKIT_WRONG_SHAPE = 3,        /* a number of axes or an extent that does not fit the other arguments */
    DEFORMKIT_WRONG_DEVICE = 4,       /* a tensor that is not in host memory */
    DEFORMKIT_OVERLAPPING_OUTPUT = 5, /* an output that overlaps itself, another output or an input */
    DEFORMKIT_OUT_OF_MEMORY = 6,
    DEFORMKIT_NO_VARIANT = 7,     /* no compiled variant serves this type on this machine, or the forced one does not */
    DEFORMKIT_DEVICE_FAILURE = 8, /* a GPU driver reported an error */
    DEFORMKIT_INTERNAL_ERROR = 9,
    DEFORMKIT_INVALID_VALUE = 10 /* a scalar argument or environment variable that makes no sense */
} deformkit_status;

/* Multi-scale deformable attention (Deformable DETR, Zhu et al. 2020, equation 3), forward.
 *
 *   value               [B, K, M, D]        float32, float16, bfloat16 or float64
 *   spatial_shapes      [L, 2]              int32 or int64   (H, W) of each level
 *   level_start_index   [L]                 int32 or int64   first key of each level
 *   sampling_locations  [B, Q, M, L, P, 2]  as value         (x, y), normalised to [0, 1]
 *   attention_weights   [B, Q, M, L, P]     as value         used as given: no softmax
 *   output              [B, Q, M * D] or [B, Q, M, D], as value
 *
 * Arithmetic is done in float32, and in float64 for float64; a 16 bit result is rounded once, when it is stored.
 *
 * output[b, q, m*D + d] = sum over l, p of attention_weights[b, q, m, l, p] * (bilinear sample of value[b, :, m, d] on level
 * l). Sampling is that of grid_sample with align_corners=False and zero padding: x = u * W - 0.5, y = v * H - 0.5 in cells.
 * Cell (row r, column s) of level l is key level_start_index[l] + r * W + s; levels may lie in any order and overlap. A key
 * outside [0, K) is no cell: it counts as zero. A NaN or infinite location contributes nothing. NaN or Inf in a cell reaches
 * only the outputs whose samples touch that cell. B = 0 or Q = 0 gives an empty output; K, L or P = 0 gives zeros. */
DEFORMKIT_API deformkit_status deformkit_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                      const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                                      const DLTensor *attention_weights, DLTensor *output);

/* Multi-scale deformable attention, backward. The first five arguments are those of the forward; further
 *
 *   grad_output              [B, Q, M * D] or [B, Q, M, D], as value
 *   grad_value               shape and type of value
 *   grad_sampling_locations  shape and type of sampling_locations
 *   grad_attention_weights   shape and type of attention_weights
 *
 * Each of the three gradients may be NULL: not wanted, and its work is not done. With g = grad_output[b, q, m, :], a the
 * sample's attention weight and V00 (upper left), V01, V10, V11 the rows of value at its corners, blended by ax and ay:
 *   grad_value: the cell of each corner gains (corner weight) * a * g
 *   grad_attention_weights = sum over d of g * (bilinear sample)
 *   grad_sampling_locations, x = W * a * sum over d of g * [(V01 - V00) * (1 - ay) + (V11 - V10) * ay]
 *                            y = H * a * sum over d of g * [(V10 - V00) * (1 - ax) + (V11 - V01) * ax]
 * A sample outside the map, or a corner off it, contributes exactly nothing. grad_value is summed in float32 (float64 for
 * float64) and rounded once; without atomics, in an order that depends on the shapes alone. */
DEFORMKIT_API deformkit_status deformkit_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                       const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                                       const DLTensor *attention_weights, const DLTensor *grad_output,
                                                       DLTensor *grad_value, DLTensor *grad_sampling_locations,
                                                       DLTensor *grad_attention_weights);

/* Deformable aggregation (Sparse4D, Lin et al. 2022), forward. Cell (row r, column c) of scale s of camera n is row
 * scale_start_index[n, s] + r * W + c of feature_maps.
 *
 *   feature_maps       [B, num_feat, C]                        float32, float16, bfloat16 or float64
 *   spatial_shape      [cameras, scales, 2]                    int32 or int64   (H, W) of each map
 *   scale_start_index  [cameras, scales]                       int32 or int64   row of each map's first cell
 *   sample_locations   [B, anchors, points, cameras, 2]        as feature_maps  (x, y), normalised to [0, 1]
 *   weights            [B, anchors, points, cameras, scales, groups]  as feature_maps; groups must divide C
 *   output             [B, anchors, C]                         as feature_maps
 *
 * output[b, a, c] = sum over points, cameras, scales of weights[..., c / (C / groups)] * (bilinear sample of channel c).
 * A location takes part where 0 < x < 1 and 0 < y < 1, and is skipped for every scale elsewhere, NaN and infinities included.
 * Sampling and cells outside feature_maps are as for deformkit_msda_forward; a map with H * W = 0 is skipped. B = 0 or no
 * anchors gives an empty output; no cells, points, cameras or scales gives zeros. */
DEFORMKIT_API deformkit_status deformkit_deformable_aggregation_forward(const DLTensor *feature_maps,
                                                                        const DLTensor *spatial_shape,
                                                                        const DLTensor *scale_start_index,
                                                                        const DLTensor *sample_locations,
                                                                        const DLTensor *weights, DLTensor *output);

/* Deformable aggregation, backward. The first five arguments are those of the forward; further
 *
 *   grad_output            [B, anchors, C], as feature_maps
 *   grad_feature_maps      shape and type of feature_maps
 *   grad_sample_locations  shape and type of sample_locations
 *   grad_weights           shape and type of weights
 *
 * Each of the three gradients may be NULL: not wanted, and its work is not done. With e = grad_output[b, a, :] and w the weight
 * of a channel's group, sums over the channels and over all scales of the formulas of deformkit_msda_backward:
 *   grad_feature_maps: the cell of each corner gains (corner weight) * w * e
 *   grad_weights = sum over the group's channels of e * (bilinear sample)
 *   grad_sample_locations = sum over scales and channels of w * e * d(bilinear sample) / d(x, y), times W or H of the scale
 * A skipped sample has gradients of zero. grad_feature_maps is summed in float32 (float64 for float64) and rounded once;
 * without atomics, in an order that depends on the shapes alone. */
DEFORMKIT_API deformkit_status deformkit_deformable_aggregation_backward(
    const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
    const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *grad_output, DLTensor *grad_feature_maps,
    DLTensor *grad_sample_locations, DLTensor *grad_weights);

/* Geometric kernel attention (Chen et al. 2022), forward: deformkit_msda_forward without interpolation.
 *
 *   value               [B, K, M, D]        float32, float16, bfloat16 or float64
 *   spatial_shapes      [L, 2]              int32 or int64   (H, W) of each level
 *   level_start_index   [L]                 int32 or int64   first key of each level
 *   sampling_locations  [B, Q, M, L, P, 2]  float32, float16, bfloat16, float64, int32, int64, int16 or int8, whatever value
 * is: (column, row) in cells attention_weights   [B, Q, M, L, P]     as value output              [B, Q, M * D] or [B, Q, M,
 * D], as value
 *
 * output[b, q, m*D + d] = sum over l, p of attention_weights[b, q, m, l, p] * value[b, cell, m, d], where the cell's column is
 * the location truncated toward zero and clamped to [0, W - 1], its row likewise to [0, H - 1]. A NaN or infinite location is
 * skipped, and so are a level with H * W = 0 and a key outside [0, K). */
DEFORMKIT_API deformkit_status deformkit_geometric_kernel_attention_forward(
    const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
    const DLTensor *sampling_locations, const DLTensor *attention_weights, DLTensor *output);

/* Geometric kernel attention, backward. The first five arguments are those of the forward; further
 *
 *   grad_output             [B, Q, M * D] or [B, Q, M, D], as value
 *   grad_value              shape and type of value
 *   grad_attention_weights  shape and type of attention_weights
 *
 * Either gradient may be NULL: not wanted, and its work is not done. Locations have none. With g = grad_output[b, q, m, :]:
 *   grad_value: each sample's cell gains (its weight) * g, summed in float32 (float64 for float64) and rounded once, in an
 * order that depends on the shapes alone grad_attention_weights = sum over d of g * (the sample's cell) */
DEFORMKIT_API deformkit_status deformkit_geometric_kernel_attention_backward(
    const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
    const DLTensor *sampling_locations, const DLTensor *attention_weights, const DLTensor *grad_output, DLTensor *grad_value,
    DLTensor *grad_attention_weights);

/* This thread's last failure, in words: never NULL, empty if nothing has failed yet. Valid until this thread's next failure. */
DEFORMKIT_API const char *deformkit_last_error(void);

/* Threads that a call may use, for the whole process; 0: one per core. */
DEFORMKIT_API deformkit_status deformkit_set_num_threads(int num_threads);

/* "major.minor.patch" */
DEFORMKIT_API const char *deformkit_version(void);

/* The variant that this thread's last successful call ran, such as "msda_forward_f32_avx512"; "" before the first, or when the
 * result was empty or zero and no kernel was needed. */
DEFORMKIT_API const char *deformkit_last_variant(void);

/* Makes the library choose variants by this target's name from now on (as DEFORMKIT_TARGET does); NULL: choose freely again.
 * DEFORMKIT_INVALID_VALUE if no variant has that target. Meant for tests and benchmarks. */
DEFORMKIT_API deformkit_status deformkit_set_target(const char *target);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DEFORMKIT_DEFORMKIT_H */
