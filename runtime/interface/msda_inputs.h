// What MSDA's forward and backward are given, checked, and what both do with it before a kernel runs.
#pragma once

#include <cstdint>

#include "runtime/cpu/levels.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct MsdaInputs {
    Tensor value;               // [B, K, M, D]
    Tensor spatial_shapes;      // [L, 2]
    Tensor level_start_index;   // [L]
    Tensor sampling_locations;  // [B, Q, M, L, P, 2]
    Tensor attention_weights;   // [B, Q, M, L, P]
    int64_t B, K, M, D, Q, L, P;

    int64_t samples() const { return L * P; }  ///< of one query and head
    bool is_empty() const { return K == 0 || L == 0 || P == 0; }
    int64_t arithmetic_bytes() const { return arithmetic_type(value.dtype).bits / 8; }
    /// By how often each cell is read: whether to go head by head, and whether to copy value head by head.
    bool reads_often() const;
    bool worth_packing() const;
};

/// What sampling_locations are: geometric kernel attention takes the same arguments, with locations in cells and of any type of
/// number.
enum class LocationUnit { kMap, kCell };

MsdaInputs view_msda_inputs(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                            const DLTensor *sampling_locations, const DLTensor *attention_weights,
                            LocationUnit unit = LocationUnit::kMap);

/// The output or its gradient: [B, Q, M * D] or [B, Q, M, D], as the latter.
Tensor view_rows(const char *name, const DLTensor *tensor, const MsdaInputs &a);

/// Cells are addressed by 32 bits. Where value is larger, what lies before the first level and behind the last can go: then
/// `value` and K are cut down, first keys with them. Returns how many keys went in front.
int64_t drop_unused_keys(MsdaInputs &a, LevelTable &levels);

/// What that left of a gradient of value, from key `dropped` on. The rest of it, for keys that no level has, is cleared.
Tensor clear_dropped_keys(const Tensor &gradient, const MsdaInputs &a, int64_t dropped);

/// Batch items to take at once, so that copies stay within bounds and strides within 32 bits.
int64_t batches_at_once(const MsdaInputs &a, std::initializer_list<const Tensor *> others);

/// Whether drop_unused_keys() might have something to do.
bool keys_may_be_dropped(const MsdaInputs &a);

/// The most that batches_at_once() can be, whatever drop_unused_keys() leaves.
int64_t most_batches_at_once(const MsdaInputs &a, std::initializer_list<const Tensor *> others);

/// What make_level_table() takes of a workspace.
int64_t level_table_workspace(const MsdaInputs &a);

/// Some batch items of value, K at least 2. Copies are head by head.
Cells prepare_value(const MsdaInputs &a, const Variant &variant, const Packing &packing, int64_t first, int64_t count);
/// The most that it takes of a workspace, whatever drop_unused_keys() leaves.
int64_t value_workspace(const MsdaInputs &a, const Variant &variant, const Packing &packing, int64_t count);

}  // namespace deformkit
