/** deformkit: deformable sampling operators for detection transformers and camera (BEV) perception.
 *
 * Tensors are DLPack's DLTensor, all of a call in host memory or on one device: see "GPUs" below. Shapes are row-major: the last
 * axis is the fastest. Strides may be any (transposed, sliced, expanded, negative); NULL means dense. The same holds for outputs,
 * except that an output must not overlap itself, another output or an input.
 *
 * Every function returns DEFORMKIT_OK or the kind of failure; deformkit_last_error() then says which argument was wrong,
 * what was expected and what came. A refused call writes nothing: also one that gets no memory, since a call takes all of its
 * memory before it writes. A successful one writes its outputs in full: nothing is added to what was there. All functions may
 * be called from many threads at once. On the CPU the number of threads does not change a bit of any result.
 *
 * A variant is an operator compiled for a pass, a type and a target, such as msda_forward_f32_avx512. A call runs the best
 * that this machine supports, on the device where the tensors are.
 *
 * GPUs. Tensors of kDLCUDA and kDLOpenCL, index tensors included, are read and written where they lie, in the order of the stream
 * that deformkit_set_stream() has set. A call returns when its work is in the stream: it does not wait for the device, and copies
 * nothing through the host. `data` of kDLOpenCL is a cl_mem, and elements begin `byte_offset` bytes into it. CUDA calls run in the
 * caller's current context if it is one of the tensors' device, else in the device's primary context.
 *   What kernels cannot read in place is copied within the device's memory: rows of channels that do not begin at multiples of 16
 * bytes or are not of whole 16 bytes, negative strides. Memory for that is kept for each stream from call to call, so that a
 * call of shapes no larger than before allocates nothing. While a CUDA stream is captured into a graph, the memory is part of the
 * graph.
 *   Indices are not looked at on the host. What makes no sense, such as levels outside value, counts as zero, as on the CPU.
 * A batch item must have less than 2^31 elements.
 *   Tensors in host memory run on a GPU only where its target is forced: on copies, and the call waits for the result.
 *
 * Environment, each variable read once, at the first call that needs it:
 *   DEFORMKIT_TARGET       forces variants of one target, by name (sse41, avx2, avx512, cuda, opencl)
 *   DEFORMKIT_NUM_THREADS  sets the number of threads
 *   DEFORMKIT_VERBOSE      1: logs to stderr which variant ran, and why others were rejected
 *   DEFORMKIT_KNOBS        a file of knobs to use instead of deformkit_knobs_file()'s; empty: none
 */
#ifndef DEFORMKIT_DEFORMKIT_H
#define DEFORMKIT_DEFORMKIT_H

#include <dlpack/dlpack.h>

/** The version of this header; deformkit_version() is that of the library. */
#define DEFORMKIT_VERSION_MAJOR 0
#define DEFORMKIT_VERSION_MINOR 1
#define DEFORMKIT_VERSION_PATCH 0

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
    DEFORMKIT_WRONG_SHAPE = 3,        /* axes or an extent that do not fit the other arguments, or what cannot be addressed */
    DEFORMKIT_WRONG_DEVICE = 4,       /* a tensor on a device that is not supported, or on another than the first argument */
    DEFORMKIT_OVERLAPPING_OUTPUT = 5, /* an output that overlaps itself, another output or an input */
    DEFORMKIT_OUT_OF_MEMORY = 6,
    DEFORMKIT_NO_VARIANT = 7,     /* the forced target has no variant for this type, or does not run on this machine */
    DEFORMKIT_DEVICE_FAILURE = 8, /* a GPU driver reported an error */
    DEFORMKIT_INTERNAL_ERROR = 9,
    DEFORMKIT_INVALID_VALUE = 10 /* a scalar argument or environment variable that makes no sense */
} deformkit_status;

/** Multi-scale deformable attention (Deformable DETR, Zhu et al. 2020, equation 3), forward.
 *
 *   value               [B, K, M, D]                   float32, float16, bfloat16 or float64
 *   spatial_shapes      [L, 2]                         int32 or int64: (H, W) of each level
 *   level_start_index   [L]                            int32 or int64: key of each level's first cell
 *   sampling_locations  [B, Q, M, L, P, 2]             as value: (x, y), 0 to 1 from edge to edge of the map
 *   attention_weights   [B, Q, M, L, P]                as value: used as given, no softmax
 *   output              [B, Q, M * D] or [B, Q, M, D]  as value
 *
 * B batch, K keys (the cells of all levels), M heads, D channels, L levels, Q queries, P points.
 *
 *   output[b, q, m * D + d] = sum over l, p of attention_weights[b, q, m, l, p] * sample(value[b, :, m, d], level l)
 *
 * sample: bilinear as grid_sample's, with align_corners=False and zero padding, at x = u * W - 0.5, y = v * H - 0.5 in
 * cells, where (u, v) is the location. Cell (row r, column s) of level l is key level_start_index[l] + r * W + s. Levels
 * may lie in any order and overlap. A key outside [0, K) counts as zero. A NaN or infinite location contributes nothing.
 * NaN or Inf in a cell reaches only the outputs whose samples touch that cell.
 *
 * Arithmetic is float32, for float64 float64; a 16 bit result is rounded once, when it is stored.
 * B = 0 or Q = 0 gives an empty output; K = 0, L = 0 or P = 0 gives zeros. */
DEFORMKIT_API deformkit_status deformkit_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                      const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                                      const DLTensor *attention_weights, DLTensor *output);

/** Multi-scale deformable attention, backward. The first five arguments are those of the forward; then
 *
 *   grad_output              [B, Q, M * D] or [B, Q, M, D]  as value
 *   grad_value               as value
 *   grad_sampling_locations  as sampling_locations
 *   grad_attention_weights   as attention_weights
 *
 * Any of the three gradients may be NULL: its work is left out. Let g = grad_output[b, q, m, :], a the sample's attention
 * weight, V00 (upper left), V01, V10 and V11 (lower right) the channels of its four cells, (ax, ay) its place between them,
 * from 0 to 1.
 *
 *   grad_value: each of the four cells gains (its bilinear weight) * a * g
 *   grad_sampling_locations x = W * a * sum over d of g * [(V01 - V00) * (1 - ay) + (V11 - V10) * ay]
 *                           y = H * a * sum over d of g * [(V10 - V00) * (1 - ax) + (V11 - V01) * ax]
 *   grad_attention_weights = sum over d of g * (bilinear sample)
 *
 * A sample outside the map, or a corner off it, contributes exactly nothing. grad_value is summed in float32, for float64
 * in float64, and rounded once: on the CPU without atomics, in an order that depends on the shapes alone; on GPUs by atomic
 * additions, in any order, unless deformkit_set_deterministic() asks for another way. */
DEFORMKIT_API deformkit_status deformkit_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                       const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                                       const DLTensor *attention_weights, const DLTensor *grad_output,
                                                       DLTensor *grad_value, DLTensor *grad_sampling_locations,
                                                       DLTensor *grad_attention_weights);

/** Deformable aggregation (Sparse4D, Lin et al. 2022), forward.
 *
 *   feature_maps       [B, num_feat, C]                               float32, float16, bfloat16 or float64
 *   spatial_shape      [cameras, scales, 2]                           int32 or int64: (H, W) of each map
 *   scale_start_index  [cameras, scales]                              int32 or int64: row of each map's first cell
 *   sample_locations   [B, anchors, points, cameras, 2]               as feature_maps: (x, y), 0 to 1 from edge to edge
 *   weights            [B, anchors, points, cameras, scales, groups]  as feature_maps; groups must divide C
 *   output             [B, anchors, C]                                as feature_maps
 *
 *   output[b, a, c] = sum over points, cameras, scales of weights[b, a, ..., group of c] * (bilinear sample of channel c)
 *
 * Channel c belongs to group c / (C / groups). Cell (row r, column s) of scale k of camera n is row scale_start_index[n, k]
 * + r * W + s of feature_maps. A location takes part where 0 < x < 1 and 0 < y < 1; any other, NaN and infinities included,
 * is skipped for all scales. Sampling, cells outside feature_maps, NaN and Inf in cells, and arithmetic are those of
 * deformkit_msda_forward; a map with H * W = 0 is skipped.
 * B = 0 or no anchors gives an empty output; no rows, points, cameras or scales gives zeros. */
DEFORMKIT_API deformkit_status deformkit_deformable_aggregation_forward(const DLTensor *feature_maps,
                                                                        const DLTensor *spatial_shape,
                                                                        const DLTensor *scale_start_index,
                                                                        const DLTensor *sample_locations,
                                                                        const DLTensor *weights, DLTensor *output);

/** Deformable aggregation, backward. The first five arguments are those of the forward; then
 *
 *   grad_output            [B, anchors, C]  as feature_maps
 *   grad_feature_maps      as feature_maps
 *   grad_sample_locations  as sample_locations
 *   grad_weights           as weights
 *
 * Any of the three gradients may be NULL: its work is left out. The formulas are those of deformkit_msda_backward, with g =
 * grad_output[b, a, :], and for a the weight of the channel's group.
 *
 *   grad_feature_maps: each of the four cells gains (its bilinear weight) * a * g
 *   grad_sample_locations: summed over all scales and channels
 *   grad_weights: summed over the channels of the group
 *
 * A skipped sample has gradients of zero. grad_feature_maps is summed as grad_value is there. */
DEFORMKIT_API deformkit_status deformkit_deformable_aggregation_backward(
    const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
    const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *grad_output, DLTensor *grad_feature_maps,
    DLTensor *grad_sample_locations, DLTensor *grad_weights);

/** Geometric kernel attention (GKT, Chen et al. 2022), forward: deformkit_msda_forward without interpolation.
 *
 *   value               [B, K, M, D]                   float32, float16, bfloat16 or float64
 *   spatial_shapes      [L, 2]                         int32 or int64: (H, W) of each level
 *   level_start_index   [L]                            int32 or int64: key of each level's first cell
 *   sampling_locations  [B, Q, M, L, P, 2]             (column, row) in cells, of any type of value's or int8 to int64
 *   attention_weights   [B, Q, M, L, P]                as value: used as given, no softmax
 *   output              [B, Q, M * D] or [B, Q, M, D]  as value
 *
 *   output[b, q, m * D + d] = sum over l, p of attention_weights[b, q, m, l, p] * value[b, cell, m, d]
 *
 * The cell's column is the location's, truncated toward zero and clamped to [0, W - 1]; its row likewise to [0, H - 1]. A
 * NaN or infinite location is skipped, and so are a level with H * W = 0 and a key outside [0, K). The rest is as for
 * deformkit_msda_forward. */
DEFORMKIT_API deformkit_status deformkit_geometric_kernel_attention_forward(
    const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
    const DLTensor *sampling_locations, const DLTensor *attention_weights, DLTensor *output);

/** Geometric kernel attention, backward. The first five arguments are those of the forward; then
 *
 *   grad_output             [B, Q, M * D] or [B, Q, M, D]  as value
 *   grad_value              as value
 *   grad_attention_weights  as attention_weights
 *
 * Either gradient may be NULL: its work is left out. Locations have none. With g = grad_output[b, q, m, :]:
 *
 *   grad_value: each sample's cell gains (its attention weight) * g, summed as in deformkit_msda_backward
 *   grad_attention_weights = sum over d of g * (the sample's cell) */
DEFORMKIT_API deformkit_status deformkit_geometric_kernel_attention_backward(
    const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
    const DLTensor *sampling_locations, const DLTensor *attention_weights, const DLTensor *grad_output, DLTensor *grad_value,
    DLTensor *grad_attention_weights);

/** This thread's last failure, in words: never NULL, empty if nothing has failed yet. Valid until this thread's next failure. */
DEFORMKIT_API const char *deformkit_last_error(void);

/** Threads that a call may use, for the whole process, 256 at most; 0: one per core. */
DEFORMKIT_API deformkit_status deformkit_set_num_threads(int num_threads);

/** What was set, here or by the environment; 0: one per core. Negative if the environment's number makes no sense. */
DEFORMKIT_API int deformkit_get_num_threads(void);

/** Threads of the caller's, such as a framework's pool, in place of the library's own. */
typedef struct deformkit_thread_pool {
    int num_threads; /* that a call may use, 256 at most; 0: one per core */
    /* Calls part(parts, i) once for each i from 0 to count - 1, on any threads, and returns when all calls have. They need not
     * run at the same time. NULL: the library's own threads, as many as num_threads says. */
    void (*parallel_for)(void *context, int count, void (*part)(void *parts, int i), void *parts);
    void *context;
} deformkit_thread_pool;

/** What this thread's calls use from now on, and what they used before; NULL: the library's threads and the process's number.
 * The object must live until it is replaced. */
DEFORMKIT_API const deformkit_thread_pool *deformkit_set_thread_pool(const deformkit_thread_pool *pool);

/** Gives back to the system all memory that is kept for the next calls and that no running call is using, other threads' too.
 * What is kept is 256 MiB at most, of all threads together, and is given back also when the library is unloaded. */
DEFORMKIT_API void deformkit_release_memory(void);

/** "major.minor.patch" of the library. */
DEFORMKIT_API const char *deformkit_version(void);

/** The variant that this thread's last successful call ran, such as "msda_forward_f32_avx512"; "" before the first, or when the
 * result was empty or zero and no kernel was needed. */
DEFORMKIT_API const char *deformkit_last_variant(void);

/** The GPU on which this thread's last call ran, as its driver calls it; "" if that was the CPU. */
DEFORMKIT_API const char *deformkit_last_device(void);

/** Forces variants of this target, by name, from now on (as DEFORMKIT_TARGET does); NULL: choose freely again.
 * DEFORMKIT_INVALID_VALUE if no target has that name. Meant for tests and benchmarks. */
DEFORMKIT_API deformkit_status deformkit_set_target(const char *target);

/** The stream of a device for this thread's calls on its tensors, until another is set: a CUstream (or cudaStream_t), of which
 * NULL is the default one, or a cl_command_queue that keeps the order of commands, which has to be set before the first call on
 * OpenCL's tensors. Nothing is retained: the stream has to exist as long as calls are made with it.
 * DEFORMKIT_WRONG_DEVICE if the device is neither kDLCUDA nor kDLOpenCL. */
DEFORMKIT_API deformkit_status deformkit_set_stream(DLDevice device, void *stream);

/** Loads the kernels of all operators into the device's context, this thread's stream being that of the calls that follow: a first
 * call would otherwise compile those it needs, seconds for all, which a stream that is being captured does not allow. Waits for the
 * device. DEFORMKIT_NO_VARIANT if no device answers. */
DEFORMKIT_API deformkit_status deformkit_warm_up(DLDevice device);

/** Frees the memory that is kept for the streams of a device. Waits for calls that use it. */
DEFORMKIT_API deformkit_status deformkit_release_workspaces(DLDevice device);

/** Not 0: results of this thread's calls on GPUs are the same bit for bit from run to run, as on the CPU they always are, or the
 * call is refused with DEFORMKIT_NO_VARIANT. 0, at first: sums over samples may be added up in any order. */
DEFORMKIT_API deformkit_status deformkit_set_deterministic(int deterministic);

/** Knobs are numbers that decide how a call is divided among blocks and threads: never what it computes, beyond the order in
 * which sums are rounded. A knob is named after its variant, such as "msda_forward_f32_avx512.block_queries", or after the
 * library, "library.copy_task_bytes". A file of knobs has lines of name=value, of comments that begin with #, and a last
 * line end=<number of knobs>. The user's own, which `python -m deformkit.tune` writes, is loaded at the first call. One that is
 * damaged, or that names what this version has not, is refused as a whole, with a message on stderr, and calls go on without.
 *
 * Setting and loading are not for while another thread is in a call. */
DEFORMKIT_API int deformkit_num_knobs(void);

/** Of 0 to deformkit_num_knobs() - 1, for as long as the library is loaded; otherwise NULL. */
DEFORMKIT_API const char *deformkit_knob_name(int index);
DEFORMKIT_API const char *deformkit_knob_meaning(int index);

/** The standard value, and the least and the greatest that are allowed. DEFORMKIT_INVALID_VALUE if no knob has that name. */
DEFORMKIT_API deformkit_status deformkit_knob_range(const char *name, int64_t *standard, int64_t *lowest, int64_t *highest);

DEFORMKIT_API deformkit_status deformkit_get_knob(const char *name, int64_t *value);

/** DEFORMKIT_INVALID_VALUE if no knob has that name, or the value is out of its range. */
DEFORMKIT_API deformkit_status deformkit_set_knob(const char *name, int64_t value);

/** DEFORMKIT_INVALID_VALUE if the file cannot be read or is refused: no knob has changed then. */
DEFORMKIT_API deformkit_status deformkit_load_knobs(const char *path);

/** Where the user's file is looked for: DEFORMKIT_KNOBS, or deformkit/<model of the CPU>.params in XDG_CONFIG_HOME or ~/.config;
 * "": nowhere. */
DEFORMKIT_API const char *deformkit_knobs_file(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DEFORMKIT_DEFORMKIT_H */
