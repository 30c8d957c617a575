// What the elementwise kernels of two and three tensors compute, for their implementations.
#pragma once

#include "core/kernels/elementwise/elementwise.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

struct Add {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return a + b;
  }
};
struct Sub {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return a - b;
  }
};
struct Mul {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return a * b;
  }
};
struct Div {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return a / b;
  }
};
struct Maximum {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return math::max(a, b);
  }
};
struct Minimum {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return math::min(a, b);
  }
};
struct AddRelu {
  template <class A>
  SACCADE_HD A operator()(A a, A b) const {
    return math::max(a + b, A(0));
  }
};
// Gradients: f(dy, a, b).
struct MulBackwardA {
  template <class A>
  SACCADE_HD A operator()(A dy, A, A b) const {
    return dy * b;
  }
};
struct MulBackwardB {
  template <class A>
  SACCADE_HD A operator()(A dy, A a, A) const {
    return dy * a;
  }
};
struct DivBackwardA {
  template <class A>
  SACCADE_HD A operator()(A dy, A, A b) const {
    return dy / b;
  }
};
struct DivBackwardB {
  template <class A>
  SACCADE_HD A operator()(A dy, A a, A b) const {
    return -dy * a / (b * b);
  }
};
// At a tie the gradient goes to a.
struct MaximumBackwardA {
  template <class A>
  SACCADE_HD A operator()(A dy, A a, A b) const {
    return a >= b ? dy : A(0);
  }
};
struct MaximumBackwardB {
  template <class A>
  SACCADE_HD A operator()(A dy, A a, A b) const {
    return a >= b ? A(0) : dy;
  }
};
struct MinimumBackwardA {
  template <class A>
  SACCADE_HD A operator()(A dy, A a, A b) const {
    return a <= b ? dy : A(0);
  }
};
struct MinimumBackwardB {
  template <class A>
  SACCADE_HD A operator()(A dy, A a, A b) const {
    return a <= b ? A(0) : dy;
  }
};

// f<Op>() with the struct of `op`, or of its gradient with respect to a (side 0) or b.
template <class F>
void with_binary_op(BinaryOp op, const F& f) {
  switch (op) {
    case BinaryOp::kAdd:
      return f.template operator()<Add>();
    case BinaryOp::kSub:
      return f.template operator()<Sub>();
    case BinaryOp::kMul:
      return f.template operator()<Mul>();
    case BinaryOp::kDiv:
      return f.template operator()<Div>();
    case BinaryOp::kMaximum:
      return f.template operator()<Maximum>();
    case BinaryOp::kMinimum:
      return f.template operator()<Minimum>();
    case BinaryOp::kAddRelu:
      return f.template operator()<AddRelu>();
  }
}
template <class F>
void with_binary_backward(BinaryOp op, int side, const F& f) {
  bool first = side == 0;
  switch (op) {
    case BinaryOp::kMul:
      return first ? f.template operator()<MulBackwardA>() : f.template operator()<MulBackwardB>();
    case BinaryOp::kDiv:
      return first ? f.template operator()<DivBackwardA>() : f.template operator()<DivBackwardB>();
    case BinaryOp::kMaximum:
      return first ? f.template operator()<MaximumBackwardA>() : f.template operator()<MaximumBackwardB>();
    case BinaryOp::kMinimum:
      return first ? f.template operator()<MinimumBackwardA>() : f.template operator()<MinimumBackwardB>();
    default:
      fail("[binary_backward] op {} has no kernel of its own", static_cast<int>(op));
  }
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
