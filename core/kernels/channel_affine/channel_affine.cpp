#include "core/kernels/channel_affine/channel_affine.h"

#include "core/kernels/elementwise/elementwise_ops.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kRows = 32;

// Calls element(i, column) for all of [rows, columns]; index = block of kRows rows.
template <class Element>
struct EachElement {
  Element element;
  int64_t rows, columns;
  SACCADE_HD void operator()(int64_t block) const {
    int64_t end = (block + 1) * kRows < rows ? (block + 1) * kRows : rows;
    for (int64_t r = block * kRows; r < end; ++r)
      for (int64_t c = 0; c < columns; ++c) element(r * columns + c, c);
  }
};

template <class Element>
void for_each_element(const Tensor& x, const Element& element, int64_t cost = 1) {
  int64_t rows = x.dim(0), columns = x.dim(1);
  for_each(ceil_div(rows, kRows), EachElement<Element>{element, rows, columns}, cost * kRows * columns);
}

template <class F, class T>
struct AffineForward {
  using A = acc_t<T>;
  const T* x;
  const A *scale, *shift;
  T* y;
  SACCADE_HD void operator()(int64_t i, int64_t c) const {
    y[i] = static_cast<T>(F::value(static_cast<A>(x[i]) * scale[c] + shift[c]));
  }
};

template <class F, class T>
struct AffineBackward {
  using A = acc_t<T>;
  const T *dy, *saved;
  const A *scale, *shift;
  T* dx;
  SACCADE_HD void operator()(int64_t i, int64_t c) const {
    A g = static_cast<A>(dy[i]) * scale[c];
    if constexpr (!is_identity<F>) {
      A s = static_cast<A>(saved[i]);
      g = F::gradient(F::kFromValue ? s : s * scale[c] + shift[c], g);
    }
    dx[i] = static_cast<T>(g);
  }
};

template <class T>
struct AffineAddRelu {
  using A = acc_t<T>;
  const T *x, *residual;
  const A *scale, *shift;
  T* y;
  SACCADE_HD void operator()(int64_t i, int64_t c) const {
    // Rounded as if it had been stored.
    T z = static_cast<T>(static_cast<A>(x[i]) * scale[c] + shift[c]);
    y[i] = static_cast<T>(AddRelu::value(static_cast<A>(z), static_cast<A>(residual[i])));
  }
};

template <class T>
struct AffineAddReluBackward {
  using A = acc_t<T>;
  const T *dy, *y;
  const A* scale;
  T *dx, *dresidual;  // either may be null
  SACCADE_HD void operator()(int64_t i, int64_t c) const {
    A g = Relu::gradient(static_cast<A>(y[i]), static_cast<A>(dy[i]));
    if (dresidual) dresidual[i] = static_cast<T>(g);
    if (dx) dx[i] = static_cast<T>(g * scale[c]);
  }
};

void forward_generic(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y) {
  dispatch_float(x.dtype(), "channel_affine", [&]<class T>() {
    using A = acc_t<T>;
    with_activation(act, [&]<class F>() {
      AffineForward<F, T> f{x.data<T>(), scale.data<A>(), shift.data<A>(), y.data<T>()};
      for_each_element(x, f, F::kCost);
    });
  });
}

void backward_generic(const Tensor& dy, const Tensor& saved, const Tensor& scale, const Tensor& shift,
                      Activation act, Tensor& dx) {
  dispatch_float(dy.dtype(), "channel_affine", [&]<class T>() {
    using A = acc_t<T>;
    with_activation(act, [&]<class F>() {
      const T* s = is_identity<F> ? nullptr : saved.data<T>();
      AffineBackward<F, T> f{dy.data<T>(), s, scale.data<A>(), shift.data<A>(), dx.data<T>()};
      for_each_element(dy, f, F::kCost);
    });
  });
}

void add_relu_generic(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& residual,
                      Tensor& y) {
  dispatch_float(x.dtype(), "affine_add_relu", [&]<class T>() {
    using A = acc_t<T>;
    AffineAddRelu<T> f{x.data<T>(), residual.data<T>(), scale.data<A>(), shift.data<A>(), y.data<T>()};
    for_each_element(x, f);
  });
}

void add_relu_backward_generic(const Tensor& dy, const Tensor& y, const Tensor& scale, Tensor& dx,
                               Tensor& dresidual) {
  dispatch_float(dy.dtype(), "affine_add_relu", [&]<class T>() {
    AffineAddReluBackward<T> f{dy.data<T>(), y.data<T>(), scale.data<acc_t<T>>(), data_or_null<T>(dx),
                               data_or_null<T>(dresidual)};
    for_each_element(dy, f);
  });
}

SACCADE_REGISTER_KERNEL(affine_add_relu_forward, &add_relu_generic);
SACCADE_REGISTER_KERNEL(affine_add_relu_backward, &add_relu_backward_generic);
SACCADE_REGISTER_KERNEL(channel_affine_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(channel_affine_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
