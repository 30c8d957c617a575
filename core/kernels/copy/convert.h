// Conversion of one element between any two dtypes.
#pragma once

#include "core/tensor/dtype.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

template <class To, class From>
SACCADE_HD To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<acc_t<From>>(v) != 0;
  } else if constexpr (std::is_same_v<From, bf16>) {
    return static_cast<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bf16> && std::is_integral_v<From>) {
    return bf16(static_cast<float>(v));
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
struct Convert {
  SACCADE_HD To operator()(From v) const { return convert<To>(v); }
};

// Code that moves elements without interpreting them uses one of these types, one per size instead of one per
// dtype. (GCC generates better code for vectors of float than of uint32_t.)
template <size_t kBytes>
using Bits = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, float, uint64_t>>>;

// Returns whether strided tensors of these dtypes are copied in one pass: equal ones, or f32 and bf16.
inline bool copies_in_one_pass(DType from, DType to) {
  auto low = [](DType t) { return t == DType::kF32 || t == DType::kBF16; };
  return from == to || (low(from) && low(to));
}
// Calls f<To, From>() for such dtypes, with Bits if they are the same.
template <class F>
void dispatch_one_pass(DType from, DType to, const F& f) {
  if (from == to)
    dispatch_any(to, "copy", [&]<class T>() { f.template operator()<Bits<sizeof(T)>, Bits<sizeof(T)>>(); });
  else if (to == DType::kBF16)
    f.template operator()<bf16, float>();
  else
    f.template operator()<float, bf16>();
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
