/* Multi-scale deformable attention, forward. */
#ifndef DEFORMKIT_ASCEND_ACLNN_MULTI_SCALE_DEFORMABLE_ATTN_FUNCTION_H
#define DEFORMKIT_ASCEND_ACLNN_MULTI_SCALE_DEFORMABLE_ATTN_FUNCTION_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As the two phases of aclnn_multi_scale_deformable_attention_grad.h, with
 *
 *   output  [bs, num_queries, num_heads * channels] or [bs, num_queries, num_heads, channels], of the type of value */
ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(
    const aclTensor *value, const aclTensor *spatialShape, const aclTensor *levelStartIndex, const aclTensor *location,
    const aclTensor *attnWeight, aclTensor *output, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMultiScaleDeformableAttnFunction(void *workspace, uint64_t workspaceSize,
                                                                      aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
