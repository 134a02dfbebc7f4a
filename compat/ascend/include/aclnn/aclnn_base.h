/* What every aclnn operator's header includes. */
#ifndef DEFORMKIT_ASCEND_ACLNN_ACLNN_BASE_H
#define DEFORMKIT_ASCEND_ACLNN_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Neither has anything to do here. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char *configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
