/* As in docs/gpu.md. */
#include <deformkit/deformkit.h>

deformkit_status prepare(DLDevice gpu);
deformkit_status attend(DLDevice gpu, void *stream, DLTensor *const tensors[6]);

deformkit_status prepare(DLDevice gpu) {
    return deformkit_warm_up(gpu); /* once: compiles the kernels */
}

deformkit_status attend(DLDevice gpu, void *stream, DLTensor *const tensors[6]) {
    deformkit_status status = deformkit_set_stream(gpu, stream); /* this thread's, until another is set */
    if (status == DEFORMKIT_OK) {
        status = deformkit_msda_forward(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5]);
    }
    return status; /* the kernels are in the stream */
}
