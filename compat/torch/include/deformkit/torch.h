/** deformkit's operators in a C++ program that runs PyTorch's models without Python: packages of AOTInductor, TorchScript modules.
 *
 * libdeformkit_torch.so registers deformkit::multi_scale_deformable_attn, deformkit::deformable_aggregation and
 * deformkit::geometric_kernel_attention, each with its ..._backward, for tensors in host memory, with the PyTorch that the process
 * has loaded: 2.10 or newer, whose stable C interface it finds by name. It is compiled and linked without PyTorch. */
#ifndef DEFORMKIT_TORCH_H
#define DEFORMKIT_TORCH_H

#ifdef __cplusplus
extern "C" {
#endif

/** Registers the operators, unless they are registered already, as loading the library does where PyTorch is there before it. NULL,
 * or why it could not. To be called before a model is loaded. */
const char *deformkit_torch_register(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DEFORMKIT_TORCH_H */
