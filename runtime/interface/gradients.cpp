#include "runtime/interface/gradients.h"

#include <string>

#include "runtime/tensor/pack.h"

namespace deformkit {

std::optional<Tensor> view_gradient(const char *name, const DLTensor *tensor, const Tensor &of) {
    if (tensor == nullptr) {
        return std::nullopt;
    }
    const Tensor gradient = view(name, tensor, {of.ndim});
    require_same_device({&gradient}, of);
    require_same_dtype(gradient, of);
    for (int i = 0; i < of.ndim; i++) {
        require_extent(gradient, i, of.shape[i], (std::string("that of ") + of.name).c_str());
    }
    return gradient;
}

void clear_gradients(std::initializer_list<const std::optional<Tensor> *> gradients) {
    for (const std::optional<Tensor> *gradient : gradients) {
        if (*gradient) {
            fill_zero(**gradient);
        }
    }
}

void require_no_overlap(std::initializer_list<const std::optional<Tensor> *> gradients,
                        std::initializer_list<const Tensor *> inputs) {
    for (auto gradient = gradients.begin(); gradient != gradients.end(); ++gradient) {
        if (!**gradient) {
            continue;
        }
        require_no_overlap(***gradient, inputs);
        for (auto other = gradients.begin(); other != gradient; ++other) {
            if (**other) {
                require_no_overlap(***gradient, {&***other});
            }
        }
    }
}

}  // namespace deformkit
