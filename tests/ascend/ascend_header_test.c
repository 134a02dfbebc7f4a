/* The headers are C99 with the vendor's names, and the library links to C. */
#include <acl/acl.h>
#include <acl/acl_base.h>
#include <acl/acl_rt.h>
#include <aclnn/acl_meta.h>
#include <aclnn/aclnn_base.h>
#include <aclnn_multi_scale_deformable_attention_grad.h>
#include <aclnn_multi_scale_deformable_attn_function.h>
#include <aclnnop/aclnn_multi_scale_deformable_attention_grad.h>
#include <aclnnop/aclnn_multi_scale_deformable_attn_function.h>
#include <stdio.h>

int main(void) {
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclnnStatus status =
        aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(NULL, NULL, NULL, NULL, NULL, NULL, &bytes, &executor);
    const char *message = aclGetRecentErrMsg();
    printf("%d: %s\n", (int)status, message != NULL ? message : "no message");
    return status == 161001 && message != NULL ? 0 : 1;
}
