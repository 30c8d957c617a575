// The functions of the elementwise kernels of two tensors. To add one: add its name to BinaryOp, its functor
// below, and the functor to BinaryFunctions.
#pragma once

#include "core/kernels/common/function_list.h"
#include "core/kernels/elementwise/elementwise.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// gradient_a(dy, a, b) and gradient_b are dy times the derivatives; ops without them have no backward kernel.
struct Add {
  SACCADE_HD static auto value(auto a, auto b) { return a + b; }
};
struct Sub {
  SACCADE_HD static auto value(auto a, auto b) { return a - b; }
};
struct Mul {
  SACCADE_HD static auto value(auto a, auto b) { return a * b; }
  SACCADE_HD static auto gradient_a(auto dy, auto, auto b) { return dy * b; }
  SACCADE_HD static auto gradient_b(auto dy, auto a, auto) { return dy * a; }
};
struct Div {
  SACCADE_HD static auto value(auto a, auto b) { return a / b; }
  SACCADE_HD static auto gradient_a(auto dy, auto, auto b) { return dy / b; }
  SACCADE_HD static auto gradient_b(auto dy, auto a, auto b) { return -dy * a / (b * b); }
};
// In a tie the gradient of the maximum and the minimum goes to a.
struct Maximum {
  SACCADE_HD static auto value(auto a, auto b) { return math::max(a, b); }
  SACCADE_HD static auto gradient_a(auto dy, auto a, auto b) { return a >= b ? dy : 0; }
  SACCADE_HD static auto gradient_b(auto dy, auto a, auto b) { return a >= b ? 0 : dy; }
};
struct Minimum {
  SACCADE_HD static auto value(auto a, auto b) { return math::min(a, b); }
  SACCADE_HD static auto gradient_a(auto dy, auto a, auto b) { return a <= b ? dy : 0; }
  SACCADE_HD static auto gradient_b(auto dy, auto a, auto b) { return a <= b ? 0 : dy; }
};
struct AddRelu {
  SACCADE_HD static auto value(auto a, auto b) { return math::max(a + b, decltype(a + b)(0)); }
};

using BinaryFunctions =
    FunctionList<Add, Sub, Mul, Div, Maximum, Minimum, AddRelu>;  // in the order of BinaryOp
template <class Op>
inline constexpr bool kHasGradient = requires {
  Op::gradient_a(1.0, 1.0, 1.0);
};

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
