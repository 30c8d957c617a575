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

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
