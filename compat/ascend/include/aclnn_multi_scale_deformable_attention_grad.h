/* For programs that include it without the folder. */
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
