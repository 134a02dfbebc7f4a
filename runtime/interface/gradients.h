// Gradients as arguments: each may be left out.
#pragma once

#include <initializer_list>
#include <optional>

#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Empty where `tensor` is NULL; otherwise checked to be of the shape and type of the input `of`.
std::optional<Tensor> view_gradient(const char *name, const DLTensor *tensor, const Tensor &of);

/// Those that are wanted become zeros.
void clear_gradients(std::initializer_list<const std::optional<Tensor> *> gradients);

/// Gradients must not overlap themselves, each other or an input.
void require_no_overlap(std::initializer_list<const std::optional<Tensor> *> gradients,
                        std::initializer_list<const Tensor *> inputs);

}  // namespace deformkit
