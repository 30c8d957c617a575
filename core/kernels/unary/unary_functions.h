// The elementwise functions of one tensor. To add one: add its name to UnaryOp, its functor below, and the
// functor to UnaryFunctions. Activations (core/kernels/activation/activations.h) are unary functions too.
#pragma once

#include <cmath>

#include "core/kernels/activation/activations.h"

namespace saccade::kernels {

enum class UnaryOp { kExp, kLog, kSqrt, kAbs, kSquare, kSigmoid, kTanh, kActivations };
constexpr UnaryOp unary_op(Activation act) {
  return static_cast<UnaryOp>(static_cast<int>(UnaryOp::kActivations) + static_cast<int>(act));
}

inline namespace SACCADE_SIDE {

// y = value(x) and dx = gradient(saved, dy); saved is y if kFromValue, otherwise x.
struct Exp {
  static constexpr const char* kName = "exp";
  static constexpr bool kFromValue = true;
  SACCADE_HD static auto value(auto x) { return math::exp(x); }
  SACCADE_HD static auto gradient(auto y, auto dy) { return dy * y; }
};
struct Log {
  static constexpr const char* kName = "log";
  static constexpr bool kFromValue = false;
  SACCADE_HD static auto value(auto x) { return math::log(x); }
  SACCADE_HD static auto gradient(auto x, auto dy) { return dy / x; }
};
struct Sqrt {
  static constexpr const char* kName = "sqrt";
  static constexpr bool kFromValue = true;
  SACCADE_HD static auto value(auto x) { return std::sqrt(x); }
  SACCADE_HD static auto gradient(auto y, auto dy) { return dy / (2 * y); }
};
struct Abs {
  static constexpr const char* kName = "abs";
  static constexpr bool kFromValue = false;
  SACCADE_HD static auto value(auto x) { return std::fabs(x); }
  SACCADE_HD static auto gradient(auto x, auto dy) { return x > 0 ? dy : x < 0 ? -dy : 0; }
};
struct Square {
  static constexpr const char* kName = "square";
  static constexpr bool kFromValue = false;
  SACCADE_HD static auto value(auto x) { return x * x; }
  SACCADE_HD static auto gradient(auto x, auto dy) { return 2 * x * dy; }
};
struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
  static constexpr bool kFromValue = true;
  SACCADE_HD static auto value(auto x) { return math::sigmoid(x); }
  SACCADE_HD static auto gradient(auto y, auto dy) { return dy * y * (1 - y); }
};
struct Tanh {
  static constexpr const char* kName = "tanh";
  static constexpr bool kFromValue = true;
  SACCADE_HD static auto value(auto x) { return math::tanh(x); }
  SACCADE_HD static auto gradient(auto y, auto dy) { return dy * (1 - y * y); }
};

using UnaryFunctions = FunctionList<Exp, Log, Sqrt, Abs, Square, Sigmoid, Tanh>;  // in the order of UnaryOp

// Calls visit.operator()<F>() with the functor of op.
template <class Visit>
void with_unary(UnaryOp op, Visit&& visit) {
  int index = static_cast<int>(op);
  index < UnaryFunctions::kCount
      ? UnaryFunctions::visit(index, visit)
      : with_activation(static_cast<Activation>(index - UnaryFunctions::kCount), visit);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
