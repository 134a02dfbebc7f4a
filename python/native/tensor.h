// A Python object as the DLTensor that the library takes.
#pragma once

#include <deformkit/deformkit.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace deformkit::python {

namespace nb = nanobind;

/// Any object that speaks DLPack, without a copy; None is NULL. Lives no longer than the object. Made and destroyed with the
/// GIL held, read without. Throws TypeError for what is no array, BufferError where an output is read-only.
class Tensor {
public:
    /// `position`: what an error calls it.
    Tensor(nb::handle object, bool writable, size_t position);
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    DLTensor *get() { return null_ ? nullptr : &tensor_; }

private:
    bool null_ = false;
    DLTensor tensor_{};
    nb::ndarray<> writable_;
    nb::ndarray<nb::ro> readable_;
};

}  // namespace deformkit::python
