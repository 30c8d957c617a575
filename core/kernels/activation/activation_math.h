// What the activations compute, for the kernels' implementations.
#pragma once

#include "core/kernels/activation/activation_type.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

template <Activation Act, class A>
SACCADE_HD A activate(A z, A& slope) {
  if constexpr (Act == Activation::kRelu) return z < A(0) ? A(0) : z;  // a NaN stays
  if constexpr (Act == Activation::kGelu) {
    A cdf = A(0.5) * (A(1) + math::erf(z * A(0.70710678118654752440)));
    slope = cdf + z * A(0.39894228040143267794) * math::exp(A(-0.5) * z * z);
    return z * cdf;
  }
  return z;
}

// d act(z) / dz times g; `saved` as in the header
template <Activation Act, class A>
SACCADE_HD A activation_grad(A g, A saved) {
  if constexpr (Act == Activation::kRelu) return saved > A(0) ? g : A(0);
  if constexpr (Act == Activation::kGelu) return g * saved;
  return g;
}

// f<act>()
template <class F>
void with_activation(Activation act, F&& f) {
  switch (act) {
    case Activation::kNone:
      f.template operator()<Activation::kNone>();
      break;
    case Activation::kRelu:
      f.template operator()<Activation::kRelu>();
      break;
    case Activation::kGelu:
      f.template operator()<Activation::kGelu>();
      break;
  }
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
