/* The part of the acl interface that programs with aclnn operators use, on the CPU. Names, values and signatures are those of
 * the vendor's; what happens here is described in docs/ascend.md of deformkit. */
#ifndef DEFORMKIT_ASCEND_ACL_ACL_H
#define DEFORMKIT_ASCEND_ACL_ACL_H

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"

#endif
