// Multi-scale deformable attention: the four functions of the aclnn interface.

#include "runtime/interface/msda.h"

#include <limits>
#include <string>
#include <utility>

#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_multi_scale_deformable_attn_function.h"
#include "compat/ascend/arguments.h"
#include "compat/ascend/executor.h"
#include "compat/ascend/status.h"
#include "runtime/cpu/plan.h"
#include "runtime/interface/error.h"
#include "runtime/system/parallel.h"

namespace deformkit::ascend {

namespace {

struct Limit {
    const char *axis;
    int64_t most;
};

constexpr Limit kLimits[] = {
    {"channels", 256}, {"num_queries", 499999}, {"num_levels", 16}, {"num_heads", 16}, {"num_points", 16}};
constexpr int64_t kChannelsMultiple = 8;

void require_limits(const Arguments &arguments) {
    for (const Limit &limit : kLimits) {
        if (const int64_t extent = arguments.extent(limit.axis); extent > limit.most) {
            throw Error(kInvalid, std::string(limit.axis) + ": expected at most " + std::to_string(limit.most) + ", got " +
                                      std::to_string(extent));
        }
    }
    if (const int64_t channels = arguments.extent("channels"); channels % kChannelsMultiple != 0) {
        throw Error(kInvalid, "channels: expected a multiple of " + std::to_string(kChannelsMultiple) + ", got " +
                                  std::to_string(channels));
    }
}

// The tensors that both passes have in common.
Argument value_argument(const char *name, const aclTensor *tensor, const char *library_name) {
    return {name, tensor, Type::kFloating, {{"bs", "num_keys", "num_heads", "channels"}}, library_name};
}

Argument location_argument(const char *name, const aclTensor *tensor, const char *library_name) {
    return {name, tensor, Type::kFloating, {{"bs", "num_queries", "num_heads", "num_levels", "num_points", "2"}}, library_name};
}

Argument weight_argument(const char *name, const aclTensor *tensor, const char *library_name) {
    return {name, tensor, Type::kFloating, {{"bs", "num_queries", "num_heads", "num_levels", "num_points"}}, library_name};
}

Argument output_argument(const char *name, const aclTensor *tensor, const char *library_name) {
    return {name,
            tensor,
            Type::kFloating,
            {{"bs", "num_queries", "num_heads*channels"}, {"bs", "num_queries", "num_heads", "channels"}},
            library_name};
}

std::vector<Argument> input_arguments(const aclTensor *value, const aclTensor *spatial_shape,
                                      const aclTensor *level_start_index, const aclTensor *location,
                                      const aclTensor *attn_weight) {
    return {value_argument("value", value, "value"),
            {"spatialShape", spatial_shape, Type::kIndex, {{"num_levels", "2"}}, "spatial_shapes"},
            {"levelStartIndex", level_start_index, Type::kIndex, {{"num_levels+"}}, "level_start_index"},
            location_argument("location", location, "sampling_locations"),
            weight_argument("attnWeight", attn_weight, "attention_weights")};
}

/// A whole first phase. `list` names the tensors, and `make` turns them into an executor once they have been checked.
template <typename List, typename Make>
aclnnStatus prepare(uint64_t *workspace_size, aclOpExecutor **executor, List &&list, Make &&make) {
    return returning(kAclnnCodes, [&] {
        if (workspace_size == nullptr || executor == nullptr) {
            throw Error(kNullPointer, std::string(workspace_size == nullptr ? "workspaceSize" : "executor") +
                                          ": expected where to put it, got NULL");
        }
        const Arguments tensors(list());
        require_limits(tensors);
        try {
            start_threads();  // or the second phase would
            hand_out(make(tensors), workspace_size, executor);
        } catch (const Failure &failure) {
            const int code = failure.status() == DEFORMKIT_NULL_ARGUMENT    ? kNullPointer
                             : failure.status() == DEFORMKIT_OUT_OF_MEMORY  ? kCreateExecutor
                             : failure.status() == DEFORMKIT_NO_VARIANT     ? kNoKernel
                             : failure.status() == DEFORMKIT_INTERNAL_ERROR ? kInner
                                                                            : kInvalid;
            throw Error(code, tensors.translate(failure.what()));
        }
    });
}

constexpr const char *kForward = "aclnnMultiScaleDeformableAttnFunction";
constexpr const char *kBackward = "aclnnMultiScaleDeformableAttentionGrad";

}  // namespace

}  // namespace deformkit::ascend

using namespace deformkit;
using namespace deformkit::ascend;

aclnnStatus aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(const aclTensor *value, const aclTensor *spatialShape,
                                                                  const aclTensor *levelStartIndex, const aclTensor *location,
                                                                  const aclTensor *attnWeight, aclTensor *output,
                                                                  uint64_t *workspaceSize, aclOpExecutor **executor) {
    const auto list = [&] {
        std::vector<Argument> arguments = input_arguments(value, spatialShape, levelStartIndex, location, attnWeight);
        arguments.push_back(output_argument("output", output, "output"));
        return arguments;
    };
    return prepare(workspaceSize, executor, list, [](const Arguments &a) {
        return std::make_shared<Executor>(kForward, plan(check_msda_forward(a[0], a[1], a[2], a[3], a[4], a[5])));
    });
}

aclnnStatus aclnnMultiScaleDeformableAttnFunction(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                  aclrtStream stream) {
    return launch(kForward, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(const aclTensor *value, const aclTensor *spatialShape,
                                                                   const aclTensor *levelStartIndex, const aclTensor *location,
                                                                   const aclTensor *attnWeight, const aclTensor *gradOutput,
                                                                   aclTensor *gradValue, aclTensor *gradLocation,
                                                                   aclTensor *gradAttnWeight, uint64_t *workspaceSize,
                                                                   aclOpExecutor **executor) {
    const auto list = [&] {
        std::vector<Argument> arguments = input_arguments(value, spatialShape, levelStartIndex, location, attnWeight);
        arguments.push_back(output_argument("gradOutput", gradOutput, "grad_output"));
        arguments.push_back(value_argument("gradValue", gradValue, "grad_value"));
        arguments.push_back(location_argument("gradLocation", gradLocation, "grad_sampling_locations"));
        arguments.push_back(weight_argument("gradAttnWeight", gradAttnWeight, "grad_attention_weights"));
        return arguments;
    };
    return prepare(workspaceSize, executor, list, [](const Arguments &a) {
        return std::make_shared<Executor>(kBackward,
                                          plan(check_msda_backward(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8])));
    });
}

aclnnStatus aclnnMultiScaleDeformableAttentionGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                   aclrtStream stream) {
    return launch(kBackward, workspace, workspaceSize, executor, stream);
}
