#include "core/kernels/channel_affine/channel_affine.h"

#include "core/kernels/elementwise/elementwise_ops.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kRows = 32;

// index = block of kRows rows
template <class F, class T>
struct AffineForward {
  using A = acc_t<T>;
  const T* x;
  const A *scale, *shift;
  T* y;
  int64_t rows, columns;
  SACCADE_HD void operator()(int64_t block) const {
    int64_t end = (block + 1) * kRows < rows ? (block + 1) * kRows : rows;
    for (int64_t r = block * kRows; r < end; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        A z = static_cast<A>(x[r * columns + c]) * scale[c] + shift[c];
        y[r * columns + c] = static_cast<T>(F::value(z));
      }
    }
  }
};

template <class F, class T>
struct AffineBackward {
  using A = acc_t<T>;
  const T *dy, *saved;
  const A *scale, *shift;
  T* dx;
  int64_t rows, columns;
  SACCADE_HD void operator()(int64_t block) const {
    int64_t end = (block + 1) * kRows < rows ? (block + 1) * kRows : rows;
    for (int64_t r = block * kRows; r < end; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        int64_t i = r * columns + c;
        A g = static_cast<A>(dy[i]) * scale[c];
        if constexpr (!is_identity<F>) {
          A s = static_cast<A>(saved[i]);
          g = F::gradient(F::kFromValue ? s : s * scale[c] + shift[c], g);
        }
        dx[i] = static_cast<T>(g);
      }
    }
  }
};

int64_t blocks(int64_t rows) { return ceil_div(rows, kRows); }

void forward_generic(const Tensor& x, const Tensor& scale, const Tensor& shift, Activation act, Tensor& y) {
  dispatch_float(x.dtype(), "channel_affine", [&]<class T>() {
    with_activation(act, [&]<class F>() {
      int64_t rows = x.dim(0), columns = x.dim(1);
      const auto *a = scale.data<acc_t<T>>(), *b = shift.data<acc_t<T>>();
      for_each(blocks(rows), AffineForward<F, T>{x.data<T>(), a, b, y.data<T>(), rows, columns},
               F::kCost * kRows * columns);
    });
  });
}

void backward_generic(const Tensor& dy, const Tensor& saved, const Tensor& scale, const Tensor& shift,
                      Activation act, Tensor& dx) {
  dispatch_float(dy.dtype(), "channel_affine", [&]<class T>() {
    with_activation(act, [&]<class F>() {
      int64_t rows = dy.dim(0), columns = dy.dim(1);
      const auto *a = scale.data<acc_t<T>>(), *b = shift.data<acc_t<T>>();
      const T* s = is_identity<F> ? nullptr : saved.data<T>();
      for_each(blocks(rows), AffineBackward<F, T>{dy.data<T>(), s, a, b, dx.data<T>(), rows, columns},
               F::kCost * kRows * columns);
    });
  });
}

// index = block of kRows rows
template <class T>
struct AffineAddRelu {
  using A = acc_t<T>;
  const T *x, *residual;
  const A *scale, *shift;
  T* y;
  int64_t rows, columns;
  SACCADE_HD void operator()(int64_t block) const {
    int64_t end = (block + 1) * kRows < rows ? (block + 1) * kRows : rows;
    for (int64_t r = block * kRows; r < end; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        int64_t i = r * columns + c;
        // Rounded as if it had been written.
        T z = static_cast<T>(static_cast<A>(x[i]) * scale[c] + shift[c]);
        y[i] = static_cast<T>(AddRelu::value(static_cast<A>(z), static_cast<A>(residual[i])));
      }
    }
  }
};

template <class T>
struct AffineAddReluBackward {
  using A = acc_t<T>;
  const T *dy, *y;
  const A* scale;
  T *dx, *dresidual;  // either may be null
  int64_t rows, columns;
  SACCADE_HD void operator()(int64_t block) const {
    int64_t end = (block + 1) * kRows < rows ? (block + 1) * kRows : rows;
    for (int64_t r = block * kRows; r < end; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        int64_t i = r * columns + c;
        A g = Relu::gradient(static_cast<A>(y[i]), static_cast<A>(dy[i]));
        if (dresidual) dresidual[i] = static_cast<T>(g);
        if (dx) dx[i] = static_cast<T>(g * scale[c]);
      }
    }
  }
};

void add_relu_generic(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& residual,
                      Tensor& y) {
  dispatch_float(x.dtype(), "affine_add_relu", [&]<class T>() {
    using A = acc_t<T>;
    int64_t rows = x.dim(0), columns = x.dim(1);
    AffineAddRelu<T> f{x.data<T>(), residual.data<T>(), scale.data<A>(), shift.data<A>(), y.data<T>(), rows,
                       columns};
    for_each(blocks(rows), f, kRows * columns);
  });
}

void add_relu_backward_generic(const Tensor& dy, const Tensor& y, const Tensor& scale, Tensor& dx,
                               Tensor& dresidual) {
  dispatch_float(dy.dtype(), "affine_add_relu", [&]<class T>() {
    int64_t rows = dy.dim(0), columns = dy.dim(1);
    AffineAddReluBackward<T> f{
        dy.data<T>(), y.data<T>(), scale.data<acc_t<T>>(), data_or_null<T>(dx), data_or_null<T>(dresidual),
        rows,         columns};
    for_each(blocks(rows), f, kRows * columns);
  });
}

SACCADE_REGISTER_KERNEL(affine_add_relu_forward, &add_relu_generic);
SACCADE_REGISTER_KERNEL(affine_add_relu_backward, &add_relu_backward_generic);
SACCADE_REGISTER_KERNEL(channel_affine_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(channel_affine_backward, &backward_generic);

}  // namespace
}  // namespace saccade::kernels
