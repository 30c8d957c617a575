#include "core/kernels/elementwise/elementwise.h"

#include "core/kernels/common/strided.h"
#include "core/kernels/elementwise/elementwise_ops.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class T, class Op>
struct BinaryFlat {
  const T *a, *b;
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<T>;
    y[i] = T(Op()(A(a[i]), A(b[i])));
  }
};

template <class T, class Op>
struct Binary {
  StridedCalls<3> calls;  // a, b, y
  const T *a, *b;
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<T>;
    int64_t sa = calls.step(0), sb = calls.step(1);
    calls.visit(i, [&](const int64_t* offsets, int64_t n) {
      const T *pa = a + offsets[0], *pb = b + offsets[1];
      T* py = y + offsets[2];
      if (sa == 1 && sb == 1) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) py[k] = T(Op()(A(pa[k]), A(pb[k])));
      } else if (sa == 1 && sb == 0) {
        A vb(pb[0]);
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) py[k] = T(Op()(A(pa[k]), vb));
      } else if (sa == 0 && sb == 1) {
        A va(pa[0]);
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) py[k] = T(Op()(va, A(pb[k])));
      } else {
        for (int64_t k = 0; k < n; ++k) py[k] = T(Op()(A(pa[k * sa]), A(pb[k * sb])));
      }
    });
  }
};

template <class T, class Op>
struct BinaryBackward {
  StridedCalls<4> calls;  // dy, a, b, dx
  const T *dy, *a, *b;
  T* dx;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<T>;
    int64_t sy = calls.step(0), sa = calls.step(1), sb = calls.step(2);
    calls.visit(i, [&](const int64_t* offsets, int64_t n) {
      const T *py = dy + offsets[0], *pa = a + offsets[1], *pb = b + offsets[2];
      T* px = dx + offsets[3];
      if (sy == 1 && sa == 1 && sb == 1) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) px[k] = T(Op()(A(py[k]), A(pa[k]), A(pb[k])));
      } else if (sy == 1 && sa == 1 && sb == 0) {
        A vb(pb[0]);
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) px[k] = T(Op()(A(py[k]), A(pa[k]), vb));
      } else {
        for (int64_t k = 0; k < n; ++k) px[k] = T(Op()(A(py[k * sy]), A(pa[k * sa]), A(pb[k * sb])));
      }
    });
  }
};

template <class T>
struct MaskedFill {
  StridedCalls<3> calls;  // x, mask, y
  const T* x;
  const bool* mask;
  T* y;
  T value;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t sx = calls.step(0), sm = calls.step(1);
    T v = value;
    calls.visit(i, [&](const int64_t* offsets, int64_t n) {
      const T* px = x + offsets[0];
      const bool* pm = mask + offsets[1];
      T* py = y + offsets[2];
      if (sm == 0 && pm[0]) {
        for (int64_t k = 0; k < n; ++k) py[k] = v;
      } else if (sm == 0 && sx == 1) {
        for (int64_t k = 0; k < n; ++k) py[k] = px[k];
      } else {
        for (int64_t k = 0; k < n; ++k) py[k] = pm[k * sm] ? v : px[k * sx];
      }
    });
  }
};

template <class Op>
void run_binary(const Tensor& a, const Tensor& b, Tensor& y) {
  dispatch_float(y.dtype(), "binary", [&]<class T>() {
    if (a.shape() == y.shape() && b.shape() == y.shape() && a.is_contiguous() && b.is_contiguous()) {
      for_each(y.numel(), BinaryFlat<T, Op>{a.data<T>(), b.data<T>(), y.data<T>()});
      return;
    }
    Shape sa = strides_in(a, y), sb = strides_in(b, y);
    StridedCalls<3> calls(StridedLoop<3>::make(y.shape(), {&sa, &sb, &y.strides()}));
    for_each(calls.count(), Binary<T, Op>{calls, a.data<T>(), b.data<T>(), y.data<T>()}, calls.cost());
  });
}

void binary_generic(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  SACCADE_CHECK(y.is_contiguous(), "[binary] the output must be contiguous");
  if (y.numel() == 0) return;
  with_binary_op(op, [&]<class Op>() { run_binary<Op>(a, b, y); });
}

struct AddWide {
  template <class A, class B>
  SACCADE_HD float operator()(A a, B b) const {
    return static_cast<float>(a) + static_cast<float>(b);
  }
};

void add_wide_generic(const Tensor& a, const Tensor& b, Tensor& y) {
  auto with_b = [&](const auto* pa) {
    b.dtype() == DType::kBF16 ? map_each(y.numel(), AddWide{}, y.data<float>(), pa, b.data<bf16>())
                              : map_each(y.numel(), AddWide{}, y.data<float>(), pa, b.data<float>());
  };
  a.dtype() == DType::kBF16 ? with_b(a.data<bf16>()) : with_b(a.data<float>());
}

template <class Op>
void run_ternary(const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& dx) {
  dispatch_float(dx.dtype(), "binary_backward", [&]<class T>() {
    Shape sy = strides_in(dy, dx), sa = strides_in(a, dx), sb = strides_in(b, dx);
    StridedCalls<4> calls(StridedLoop<4>::make(dx.shape(), {&sy, &sa, &sb, &dx.strides()}));
    for_each(calls.count(),
             BinaryBackward<T, Op>{calls, dy.data<T>(), a.data<T>(), b.data<T>(), dx.data<T>()},
             calls.cost());
  });
}

void binary_backward_generic(BinaryOp op, int side, const Tensor& dy, const Tensor& a, const Tensor& b,
                             Tensor& dx) {
  SACCADE_CHECK(dx.is_contiguous(), "[binary_backward] the output must be contiguous");
  if (dx.numel() == 0) return;
  with_binary_backward(op, side, [&]<class Op>() { run_ternary<Op>(dy, a, b, dx); });
}

void masked_fill_generic(const Tensor& x, const Tensor& mask, double value, Tensor& y) {
  SACCADE_CHECK(y.is_contiguous(), "[masked_fill] the output must be contiguous");
  if (y.numel() == 0) return;
  dispatch_float(y.dtype(), "masked_fill", [&]<class T>() {
    Shape sx = strides_in(x, y), sm = strides_in(mask, y);
    StridedCalls<3> calls(StridedLoop<3>::make(y.shape(), {&sx, &sm, &y.strides()}));
    for_each(calls.count(), MaskedFill<T>{calls, x.data<T>(), mask.data<bool>(), y.data<T>(), T(value)},
             calls.cost());
  });
}

SACCADE_REGISTER_KERNEL(binary, &binary_generic);
SACCADE_REGISTER_KERNEL(add_wide, &add_wide_generic);
SACCADE_REGISTER_KERNEL(binary_backward, &binary_backward_generic);
SACCADE_REGISTER_KERNEL(masked_fill, &masked_fill_generic);

}  // namespace
}  // namespace saccade::kernels
