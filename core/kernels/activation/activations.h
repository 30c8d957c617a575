// The activations: separate elementwise ops, and the last step of matrix products, convolutions and norms. To
// add one: add its name to Activation, its functor below, and the functor to ActivationFunctions.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/kernels/common/function_list.h"
#include "core/tensor/hd.h"
#include "core/tensor/math.h"

namespace saccade {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kSilu };

namespace kernels {
inline namespace SACCADE_SIDE {

// value(z) is the function, gradient(saved, dy) its derivative times dy. `saved` is what backward keeps: the
// value if kFromValue, otherwise z; with kFromInput it may be z in any case. kInLibraries: oneDNN, cuBLASLt
// and cuDNN apply it as they write a product; the others are a separate pass over the result. kCost counts
// element operations.
struct Identity {
  static constexpr const char* kName = "identity";
  static constexpr bool kFromValue = true, kFromInput = true, kInLibraries = true;
  static constexpr int64_t kCost = 1;
  SACCADE_HD static auto value(auto z) { return z; }
  SACCADE_HD static auto gradient(auto, auto dy) { return dy; }
};
struct Relu {
  static constexpr const char* kName = "relu";
  static constexpr bool kFromValue = true, kFromInput = true, kInLibraries = true;
  static constexpr int64_t kCost = 1;
  SACCADE_HD static auto value(auto z) { return z < 0 ? 0 : z; }  // keeps a NaN
  SACCADE_HD static auto gradient(auto saved, auto dy) { return saved > 0 ? dy : 0; }
};
// z Phi(z), Phi the normal distribution function (the exact form; the libraries use the tanh approximation)
struct Gelu {
  static constexpr const char* kName = "gelu";
  static constexpr bool kFromValue = false, kFromInput = true, kInLibraries = false;
  static constexpr int64_t kCost = 16;
  template <class A>
  SACCADE_HD static A value(A z) {
    return A(0.5) * z * (A(1) + math::erf(z * A(0.70710678118654752440)));
  }
  template <class A>
  SACCADE_HD static A gradient(A z, A dy) {
    A phi = A(0.39894228040143267794) * math::exp(A(-0.5) * z * z);
    return dy * (A(0.5) * (A(1) + math::erf(z * A(0.70710678118654752440))) + z * phi);
  }
  // Computes both from one erf.
  template <class A>
  SACCADE_HD static A value_and_slope(A z, A& slope) {
    A cdf = A(0.5) * (A(1) + math::erf(z * A(0.70710678118654752440)));
    slope = cdf + z * A(0.39894228040143267794) * math::exp(A(-0.5) * z * z);
    return z * cdf;
  }
};
// z sigmoid(z), also called swish (Elfwing et al. 2018)
struct Silu {
  static constexpr const char* kName = "silu";
  static constexpr bool kFromValue = false, kFromInput = true, kInLibraries = false;
  static constexpr int64_t kCost = 8;
  SACCADE_HD static auto value(auto z) { return z * math::sigmoid(z); }
  SACCADE_HD static auto gradient(auto z, auto dy) {
    auto s = math::sigmoid(z);
    return dy * (s * (1 + z * (1 - s)));
  }
};

using ActivationFunctions = FunctionList<Identity, Relu, Gelu, Silu>;  // in the order of Activation

// Calls visit.operator()<F>() with the functor of act.
template <class Visit>
void with_activation(Activation act, Visit&& visit) {
  ActivationFunctions::visit(static_cast<int>(act), visit);
}

// Returns the value, and the slope (derivative) if backward cannot derive it from the value.
template <class F, class A>
SACCADE_HD A value_and_slope(A z, A& slope) {
  if constexpr (requires { F::value_and_slope(z, slope); }) {
    return F::value_and_slope(z, slope);
  } else {
    if constexpr (!F::kFromValue) slope = F::gradient(z, A(1));
    return F::value(z);
  }
}

// gradient() if z is available.
template <class F, class A>
SACCADE_HD A gradient_at(A z, A dy) {
  if constexpr (F::kFromInput) return F::gradient(z, dy);
  return F::gradient(F::value(z), dy);
}

// gradient() from what activation_forward saves: the value or the slope.
template <class F, class A>
SACCADE_HD A gradient_of_saved(A saved, A dy) {
  if constexpr (F::kFromValue) return F::gradient(saved, dy);
  return dy * saved;
}

template <class F>
inline constexpr bool is_identity = std::is_same_v<F, Identity>;

}  // namespace SACCADE_SIDE

// Returns whether backward needs the slope (true) or the value.
inline bool saves_slope(Activation act) {
  bool answer = false;
  with_activation(act, [&]<class F>() { answer = !F::kFromValue; });
  return answer;
}
// Returns whether products can apply it (linear_forward, conv2d_forward).
inline bool fuses_into_products(Activation act) {
  bool answer = false;
  with_activation(act, [&]<class F>() { answer = F::kInLibraries; });
  return answer;
}

}  // namespace kernels
}  // namespace saccade
