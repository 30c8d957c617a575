#include "core/kernels/unary/unary.h"

#include "core/runtime/launch.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

// Each function is a pair: y = forward(x) and dx = backward(saved, dy).
struct Exp {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return math::exp(x);
  }
  template <class A>
  SACCADE_HD static A backward(A y, A dy) {
    return dy * y;
  }
};
struct Log {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return math::log(x);
  }
  template <class A>
  SACCADE_HD static A backward(A x, A dy) {
    return dy / x;
  }
};
struct Sqrt {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return std::sqrt(x);
  }
  template <class A>
  SACCADE_HD static A backward(A y, A dy) {
    return dy / (A(2) * y);
  }
};
struct Abs {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return std::fabs(x);
  }
  template <class A>
  SACCADE_HD static A backward(A x, A dy) {
    return x > A(0) ? dy : x < A(0) ? -dy : A(0);
  }
};
struct Square {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return x * x;
  }
  template <class A>
  SACCADE_HD static A backward(A x, A dy) {
    return A(2) * x * dy;
  }
};
struct Relu {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return math::max(x, A(0));
  }
  template <class A>
  SACCADE_HD static A backward(A y, A dy) {
    return y > A(0) ? dy : A(0);
  }
};
// x Phi(x), Phi the normal distribution function
struct Gelu {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return A(0.5) * x * (A(1) + math::erf(x * A(0.70710678118654752440)));
  }
  template <class A>
  SACCADE_HD static A backward(A x, A dy) {
    A phi = A(0.39894228040143267794) * math::exp(A(-0.5) * x * x);
    return dy * (A(0.5) * (A(1) + math::erf(x * A(0.70710678118654752440))) + x * phi);
  }
};
struct Sigmoid {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return math::sigmoid(x);
  }
  template <class A>
  SACCADE_HD static A backward(A y, A dy) {
    return dy * y * (A(1) - y);
  }
};
struct Tanh {
  template <class A>
  SACCADE_HD static A forward(A x) {
    return math::tanh(x);
  }
  template <class A>
  SACCADE_HD static A backward(A y, A dy) {
    return dy * (A(1) - y * y);
  }
};

template <class T, class Op>
struct Forward {
  SACCADE_HD T operator()(T x) const { return T(Op::forward(acc_t<T>(x))); }
};

template <class T, class Op>
struct Backward {
  SACCADE_HD T operator()(T saved, T dy) const { return T(Op::backward(acc_t<T>(saved), acc_t<T>(dy))); }
};

template <class F>
void with_op(UnaryOp op, F&& f) {
  switch (op) {
    case UnaryOp::kExp:
      return f.template operator()<Exp>();
    case UnaryOp::kLog:
      return f.template operator()<Log>();
    case UnaryOp::kSqrt:
      return f.template operator()<Sqrt>();
    case UnaryOp::kAbs:
      return f.template operator()<Abs>();
    case UnaryOp::kSquare:
      return f.template operator()<Square>();
    case UnaryOp::kRelu:
      return f.template operator()<Relu>();
    case UnaryOp::kGelu:
      return f.template operator()<Gelu>();
    case UnaryOp::kSigmoid:
      return f.template operator()<Sigmoid>();
    case UnaryOp::kTanh:
      return f.template operator()<Tanh>();
  }
}

void unary_generic(UnaryOp op, const Tensor& x, Tensor& y) {
  dispatch_float(x.dtype(), "unary", [&]<class T>() {
    with_op(op, [&]<class Op>() { map_each(x.numel(), Forward<T, Op>{}, y.data<T>(), x.data<T>()); });
  });
}

void unary_backward_generic(UnaryOp op, const Tensor& saved, const Tensor& dy, Tensor& dx) {
  dispatch_float(dy.dtype(), "unary_backward", [&]<class T>() {
    with_op(op, [&]<class Op>() {
      map_each(dy.numel(), Backward<T, Op>{}, dx.data<T>(), saved.data<T>(), dy.data<T>());
    });
  });
}

template <class T>
struct ScaleShift {
  using A = acc_t<T>;
  A scale, shift;
  SACCADE_HD T operator()(T x) const { return T(A(x) * scale + shift); }
};

template <class T>
struct Clamp {
  using A = acc_t<T>;
  A low, high;
  SACCADE_HD T operator()(T x) const { return T(math::min(math::max(A(x), low), high)); }
};

template <class T>
struct ClampBackward {
  using A = acc_t<T>;
  A low, high;
  SACCADE_HD T operator()(T x, T dy) const {
    A v(x);
    return (v >= low) & (v <= high) ? dy : T(A(0));
  }
};

template <class T>
struct InverseSigmoid {
  using A = acc_t<T>;
  A eps;
  SACCADE_HD T operator()(T x) const {
    A v(x), w = A(1) - v, e = eps;
    v = v < e ? e : v;  // comparisons that let NaN through
    v = v > A(1) ? A(1) : v;
    w = w < e ? e : w;
    w = w > A(1) ? A(1) : w;
    return T(math::log(v / w));
  }
};

template <class T>
struct InverseSigmoidBackward {
  using A = acc_t<T>;
  A eps;
  SACCADE_HD T operator()(T x, T dy) const {
    A v(x), w = A(1) - v;
    A slope = (v >= eps ? A(1) / math::max(v, eps) : A(0)) + (w >= eps ? A(1) / math::max(w, eps) : A(0));
    return T((v >= A(0)) & (v <= A(1)) ? A(dy) * slope : A(0));
  }
};

void scale_shift_generic(const Tensor& x, double scale, double shift, Tensor& y) {
  dispatch_float(x.dtype(), "scale_shift", [&]<class T>() {
    using A = acc_t<T>;
    map_each(x.numel(), ScaleShift<T>{A(scale), A(shift)}, y.data<T>(), x.data<T>());
  });
}

void clamp_generic(const Tensor& x, double low, double high, Tensor& y) {
  dispatch_float(x.dtype(), "clamp", [&]<class T>() {
    using A = acc_t<T>;
    map_each(x.numel(), Clamp<T>{A(low), A(high)}, y.data<T>(), x.data<T>());
  });
}

void clamp_backward_generic(const Tensor& x, double low, double high, const Tensor& dy, Tensor& dx) {
  dispatch_float(x.dtype(), "clamp_backward", [&]<class T>() {
    using A = acc_t<T>;
    map_each(x.numel(), ClampBackward<T>{A(low), A(high)}, dx.data<T>(), x.data<T>(), dy.data<T>());
  });
}

void inverse_sigmoid_generic(const Tensor& x, double eps, Tensor& y) {
  dispatch_float(x.dtype(), "inverse_sigmoid", [&]<class T>() {
    map_each(x.numel(), InverseSigmoid<T>{acc_t<T>(eps)}, y.data<T>(), x.data<T>());
  });
}

void inverse_sigmoid_backward_generic(const Tensor& x, double eps, const Tensor& dy, Tensor& dx) {
  dispatch_float(x.dtype(), "inverse_sigmoid_backward", [&]<class T>() {
    map_each(x.numel(), InverseSigmoidBackward<T>{acc_t<T>(eps)}, dx.data<T>(), x.data<T>(), dy.data<T>());
  });
}

SACCADE_REGISTER_KERNEL(unary, &unary_generic);
SACCADE_REGISTER_KERNEL(unary_backward, &unary_backward_generic);
SACCADE_REGISTER_KERNEL(scale_shift, &scale_shift_generic);
SACCADE_REGISTER_KERNEL(clamp, &clamp_generic);
SACCADE_REGISTER_KERNEL(clamp_backward, &clamp_backward_generic);
SACCADE_REGISTER_KERNEL(inverse_sigmoid, &inverse_sigmoid_generic);
SACCADE_REGISTER_KERNEL(inverse_sigmoid_backward, &inverse_sigmoid_backward_generic);

}  // namespace
}  // namespace saccade::kernels
