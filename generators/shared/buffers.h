// What every kernel asks of the buffers that the runtime hands over.
#pragma once

#include <Halide.h>

#include <array>
#include <utility>

#include "generators/shared/contract.h"
#include "schedules/knobs.h"

namespace deformkit {

/// The schedule knobs of a pass as GeneratorParams.
template <typename Knobs>
class KnobParams {
public:
    operator Knobs() const {
        Knobs values;
        for (size_t i = 0; i < Knobs::kCount; i++) {
            values.*Knobs::fields()[i] = params_[i];
        }
        return values;
    }

private:
    using Param = Halide::GeneratorParam<int>;

    static Param param(const Knob &knob) {
        return Param(knob.name, static_cast<int>(knob.standard), static_cast<int>(knob.lowest), static_cast<int>(knob.highest));
    }
    template <size_t... I>
    static std::array<Param, Knobs::kCount> params(std::index_sequence<I...>) {
        return {{param(Knobs::knobs()[I])...}};
    }

    // Made in place: Halide takes for a generator's what lies within it.
    std::array<Param, Knobs::kCount> params_{params(std::make_index_sequence<Knobs::kCount>())};
};

/// What the build tells every generator.
template <typename T, typename Knobs>
class VariantGenerator : public Halide::Generator<T> {
public:
    Halide::GeneratorParam<Halide::Type> storage_type{"storage_type", Halide::Float(32)};
    Halide::GeneratorParam<int> lanes{"lanes", 8};  ///< of float32 in a vector register
    KnobParams<Knobs> knobs;
};

/// Lanes of the type of arithmetic, where a vector holds `lanes` of float32.
inline int compute_lanes(Halide::Type storage, int lanes) {
    return storage.bits() == 64 ? lanes / 2 : lanes;
}

/// Every one of `buffers` holds elements of `type`.
template <typename... Buffers>
void set_types(const Halide::Type &type, Buffers &...buffers) {
    (buffers.set_type(type), ...);
}

/// Minima are zero, all strides are free.
template <typename... Buffers>
void from_zero(Buffers &...buffers) {
    const auto constrain = [](auto &buffer) {
        buffer.dim(0).set_stride(Halide::Expr());
        for (int i = 0; i < buffer.dimensions(); i++) {
            buffer.dim(i).set_min(0);
        }
    };
    (constrain(buffers), ...);
}

/// Minima are zero, the innermost axis is dense; other strides are free.
template <typename... Buffers>
void dense_from_zero(Buffers &...buffers) {
    const auto constrain = [](auto &buffer) {
        buffer.dim(0).set_stride(1);
        for (int i = 0; i < buffer.dimensions(); i++) {
            buffer.dim(i).set_min(0);
        }
    };
    (constrain(buffers), ...);
}

}  // namespace deformkit
