#include "generators/shared/storage.h"

#include "generators/shared/sampling.h"

namespace deformkit {

using namespace Halide;

namespace {

Expr u32(uint32_t value) {
    return Internal::make_const(UInt(32), value);
}

// Where a target has no conversions of its own. Halide's make infinities of NaNs.

Expr widen_f16(const Expr &stored) {
    const Expr bits = cast<uint32_t>(reinterpret<uint16_t>(stored));
    const Expr magnitude = bits & u32(0x7fff), rebias = u32(112 << 23);
    const Expr normal = (magnitude << 13) + rebias;
    const Expr subnormal = reinterpret<uint32_t>(cast<float>(cast<int32_t>(magnitude)) * 0x1p-24f);
    const Expr wide = select(magnitude >= u32(0x7c00), normal + rebias, magnitude < u32(0x0400), subnormal, normal);
    return reinterpret<float>(wide | ((bits & u32(0x8000)) << 16));
}

Expr round_to_f16(const Expr &result) {
    const Expr bits = reinterpret<uint32_t>(result), magnitude = bits & u32(0x7fffffff);
    const Expr normal = (magnitude - u32(112 << 23) + u32(0xfff) + ((magnitude >> 13) & 1)) >> 13;
    // A unit in the last place of 0.5 is the smallest float16: the addition rounds.
    const Expr subnormal = reinterpret<uint32_t>(strict_float(reinterpret<float>(magnitude) + 0.5f)) - u32(0x3f000000);
    const Expr finite = select(magnitude < u32(0x38800000), subnormal, normal);
    const Expr narrow = select(is_nan_bits(result), u32(0x7e00), magnitude >= u32(0x477ff000), u32(0x7c00), finite);
    return reinterpret(Float(16), cast<uint16_t>(narrow | ((bits >> 16) & u32(0x8000))));
}

// Halide's own conversion adds to the bits of a NaN as to any other, and may arrive at infinity or zero.
Expr round_to_bf16(const Expr &result) {
    const Expr bits = reinterpret<uint32_t>(result);
    const Expr rounded = bits + (u32(0x7fff) + ((bits >> 16) & 1)), quiet = bits | u32(0x400000);
    return reinterpret(BFloat(16), cast<uint16_t>(select(is_nan_bits(result), quiet, rounded) >> 16));
}

bool converts_f16(const Target &target) {
    if (target.has_gpu_feature()) {
        return target.has_feature(Target::CUDA);
    }
    return target.arch != Target::X86 || target.has_feature(Target::F16C);
}

}  // namespace

// Of the instructions that newer processors have for these types none pays. In a loop over detr_encoder's largest level
// (AVX-512, 2 MB L2, one thread), against float32: bfloat16 1.09x, vdpbf16ps with each weight as three bfloat16 (else it is not
// float32 arithmetic) 0.54x; float16 by vcvtph2ps 1.20x, by AVX512-FP16's vcvtph2psx 1.21x.
Expr widen(const Expr &stored, const Target &target) {
    const Type type = stored.type();
    if (type.is_bfloat()) {
        return reinterpret<float>(cast<uint32_t>(reinterpret<uint16_t>(stored)) << 16);
    }
    if (type.bits() == 16) {
        return converts_f16(target) ? cast<float>(stored) : widen_f16(stored);
    }
    return stored;
}

Func widened(const Func &stored, const Target &target) {
    if (stored.type() == compute_type(stored.type())) {
        return stored;
    }
    Func wide(stored.name() + "_wide");
    wide(_) = widen(stored(_), target);
    return wide;
}

Expr round_to_storage(Type storage, const Expr &result, const Target &target) {
    if (storage.is_bfloat()) {
        return round_to_bf16(result);
    }
    return storage.bits() == 16 && !converts_f16(target) ? round_to_f16(result) : cast(storage, result);
}

}  // namespace deformkit
