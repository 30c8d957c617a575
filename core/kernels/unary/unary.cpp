#include "core/kernels/unary/unary.h"

#include "core/runtime/launch.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
namespace {

template <class T, class Op>
struct Forward {
  SACCADE_HD T operator()(T x) const { return T(Op::value(acc_t<T>(x))); }
};

template <class T, class Op>
struct Backward {
  SACCADE_HD T operator()(T saved, T dy) const { return T(Op::gradient(acc_t<T>(saved), acc_t<T>(dy))); }
};

void unary_generic(UnaryOp op, const Tensor& x, Tensor& y) {
  dispatch_float(x.dtype(), "unary", [&]<class T>() {
    with_unary(op, [&]<class Op>() { map_each(x.numel(), Forward<T, Op>{}, y.data<T>(), x.data<T>()); });
  });
}

void unary_backward_generic(UnaryOp op, const Tensor& saved, const Tensor& dy, Tensor& dx) {
  dispatch_float(dy.dtype(), "unary_backward", [&]<class T>() {
    with_unary(op, [&]<class Op>() {
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
    return ((v >= low) & (v <= high)) ? dy : T(A(0));
  }
};

template <class T>
struct InverseSigmoid {
  using A = acc_t<T>;
  A eps;
  SACCADE_HD T operator()(T x) const {
    A v(x), w = A(1) - v, e = eps;
    v = v < e ? e : v;  // comparisons that preserve NaN
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
    return T(((v >= A(0)) & (v <= A(1))) ? A(dy) * slope : A(0));
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
