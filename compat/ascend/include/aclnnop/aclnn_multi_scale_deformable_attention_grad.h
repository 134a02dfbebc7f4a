/* Multi-scale deformable attention, backward. */
#ifndef DEFORMKIT_ASCEND_ACLNN_MULTI_SCALE_DEFORMABLE_ATTENTION_GRAD_H
#define DEFORMKIT_ASCEND_ACLNN_MULTI_SCALE_DEFORMABLE_ATTENTION_GRAD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First phase: checks the arguments, and says how much memory the second phase needs.
 *
 *   value, gradValue            [bs, num_keys, num_heads, channels]
 *   spatialShape                [num_levels, 2]  (H, W)                    ACL_INT32 or ACL_INT64
 *   levelStartIndex             [num_levels] or longer                     ACL_INT32 or ACL_INT64
 *   location, gradLocation      [bs, num_queries, num_heads, num_levels, num_points, 2]  (x, y), normalised to [0, 1]
 *   attnWeight, gradAttnWeight  [bs, num_queries, num_heads, num_levels, num_points]
 *   gradOutput                  [bs, num_queries, num_heads * channels] or [bs, num_queries, num_heads, channels]
 *
 * All but the indices ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, all of them the same. Any strides; an output must not overlap itself
 * or another tensor. channels a multiple of 8 and at most 256, num_queries below 500000, num_levels, num_heads and num_points
 * at most 16. The vendor's forward wants 32 queries or more as well, which is not asked for here.
 *
 * 0, or 161001: an argument, or the data of a tensor that is not empty, is NULL; 161002: a type, shape or size other than the
 * above. What the tensors hold is not looked at before the second phase runs. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
    const aclTensor *value, const aclTensor *spatialShape, const aclTensor *levelStartIndex, const aclTensor *location,
    const aclTensor *attnWeight, const aclTensor *gradOutput, aclTensor *gradValue, aclTensor *gradLocation,
    aclTensor *gradAttnWeight, uint64_t *workspaceSize, aclOpExecutor **executor);

/* Second phase: puts the call in the stream's queue and returns; nothing is allocated, now or then. The workspace is in use,
 * and the tensors' memory is, until the stream has been synchronised. 161001 or 161002 for a workspace that is NULL or too
 * small, or an executor that is not from the first phase of this operator or was used before: nothing is run, and a good
 * executor keeps. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttentionGrad(void *workspace, uint64_t workspaceSize,
                                                                       aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
