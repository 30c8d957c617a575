#include "core/kernels/elementwise.h"

#include "core/kernels/strided.h"
#include "core/launch.h"
#include "core/math.h"

namespace saccade::kernels {
namespace {

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
struct BinaryRow {
  StridedLoop<3> loop;  // a, b, y
  RowPieces pieces;
  const T *a, *b;
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<T>;
    int64_t row = pieces.row(i), begin = pieces.begin(i), n = pieces.end(i) - begin;
    int64_t sa = loop.strides[0][loop.rank - 1], sb = loop.strides[1][loop.rank - 1];
    const T* pa = a + loop.row_offset(0, row) + begin * sa;
    const T* pb = b + loop.row_offset(1, row) + begin * sb;
    T* py = y + loop.row_offset(2, row) + begin;
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
  }
};

template <class T, class Op>
struct TernaryRow {
  StridedLoop<4> loop;  // dy, a, b, dx
  RowPieces pieces;
  const T *dy, *a, *b;
  T* dx;
  SACCADE_HD void operator()(int64_t i) const {
    using A = acc_t<T>;
    int64_t row = pieces.row(i), begin = pieces.begin(i), n = pieces.end(i) - begin;
    int last = loop.rank - 1;
    int64_t sy = loop.strides[0][last], sa = loop.strides[1][last], sb = loop.strides[2][last];
    const T* py = dy + loop.row_offset(0, row) + begin * sy;
    const T* pa = a + loop.row_offset(1, row) + begin * sa;
    const T* pb = b + loop.row_offset(2, row) + begin * sb;
    T* px = dx + loop.row_offset(3, row) + begin;
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
  }
};

template <class T>
struct MaskedFillRow {
  StridedLoop<3> loop;  // x, mask, y
  RowPieces pieces;
  const T* x;
  const bool* mask;
  T* y;
  T value;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t row = pieces.row(i), begin = pieces.begin(i), n = pieces.end(i) - begin;
    int64_t sx = loop.strides[0][loop.rank - 1], sm = loop.strides[1][loop.rank - 1];
    const T* px = x + loop.row_offset(0, row) + begin * sx;
    const bool* pm = mask + loop.row_offset(1, row) + begin * sm;
    T* py = y + loop.row_offset(2, row) + begin;
    T v = value;
    if (sx == 1 && sm == 0) {
      bool filled = pm[0];
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) py[k] = filled ? v : px[k];
    } else if (sx == 1 && sm == 1) {
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) py[k] = pm[k] ? v : px[k];
    } else {
      for (int64_t k = 0; k < n; ++k) py[k] = pm[k * sm] ? v : px[k * sx];
    }
  }
};

// Broadcasts t's strides to the output's shape.
Shape strides_in(const Tensor& t, const Tensor& y) {
  return t.shape() == y.shape() ? t.strides() : t.expand(y.shape()).strides();
}

template <class Op>
void run_binary(const Tensor& a, const Tensor& b, Tensor& y) {
  dispatch_float(y.dtype(), "binary", [&]<class T>() {
    if (a.shape() == y.shape() && b.shape() == y.shape() && a.is_contiguous() && b.is_contiguous()) {
      for_each(y.numel(), BinaryFlat<T, Op>{a.data<T>(), b.data<T>(), y.data<T>()});
      return;
    }
    Shape sa = strides_in(a, y), sb = strides_in(b, y);
    auto loop = StridedLoop<3>::make(y.shape(), {&sa, &sb, &y.strides()});
    RowPieces pieces(loop.inner());
    for_each(loop.rows() * pieces.per_row,
             BinaryRow<T, Op>{loop, pieces, a.data<T>(), b.data<T>(), y.data<T>()}, pieces.cost());
  });
}

void binary_generic(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  SACCADE_CHECK(y.is_contiguous(), "[binary] the output must be contiguous");
  if (y.numel() == 0) return;
  switch (op) {
    case BinaryOp::kAdd:
      return run_binary<Add>(a, b, y);
    case BinaryOp::kSub:
      return run_binary<Sub>(a, b, y);
    case BinaryOp::kMul:
      return run_binary<Mul>(a, b, y);
    case BinaryOp::kDiv:
      return run_binary<Div>(a, b, y);
    case BinaryOp::kMaximum:
      return run_binary<Maximum>(a, b, y);
    case BinaryOp::kMinimum:
      return run_binary<Minimum>(a, b, y);
    case BinaryOp::kAddRelu:
      return run_binary<AddRelu>(a, b, y);
  }
}

template <class Op>
void run_ternary(const Tensor& dy, const Tensor& a, const Tensor& b, Tensor& dx) {
  dispatch_float(dx.dtype(), "binary_backward", [&]<class T>() {
    Shape sy = strides_in(dy, dx), sa = strides_in(a, dx), sb = strides_in(b, dx);
    auto loop = StridedLoop<4>::make(dx.shape(), {&sy, &sa, &sb, &dx.strides()});
    RowPieces pieces(loop.inner());
    for_each(loop.rows() * pieces.per_row,
             TernaryRow<T, Op>{loop, pieces, dy.data<T>(), a.data<T>(), b.data<T>(), dx.data<T>()},
             pieces.cost());
  });
}

void binary_backward_generic(BinaryOp op, int side, const Tensor& dy, const Tensor& a, const Tensor& b,
                             Tensor& dx) {
  SACCADE_CHECK(dx.is_contiguous(), "[binary_backward] the output must be contiguous");
  if (dx.numel() == 0) return;
  bool first = side == 0;
  switch (op) {
    case BinaryOp::kMul:
      return first ? run_ternary<MulBackwardA>(dy, a, b, dx) : run_ternary<MulBackwardB>(dy, a, b, dx);
    case BinaryOp::kDiv:
      return first ? run_ternary<DivBackwardA>(dy, a, b, dx) : run_ternary<DivBackwardB>(dy, a, b, dx);
    case BinaryOp::kMaximum:
      return first ? run_ternary<MaximumBackwardA>(dy, a, b, dx)
                   : run_ternary<MaximumBackwardB>(dy, a, b, dx);
    case BinaryOp::kMinimum:
      return first ? run_ternary<MinimumBackwardA>(dy, a, b, dx)
                   : run_ternary<MinimumBackwardB>(dy, a, b, dx);
    default:
      fail("[binary_backward] op {} has no kernel of its own", static_cast<int>(op));
  }
}

void masked_fill_generic(const Tensor& x, const Tensor& mask, double value, Tensor& y) {
  SACCADE_CHECK(y.is_contiguous(), "[masked_fill] the output must be contiguous");
  if (y.numel() == 0) return;
  dispatch_float(y.dtype(), "masked_fill", [&]<class T>() {
    Shape sx = strides_in(x, y), sm = strides_in(mask, y);
    auto loop = StridedLoop<3>::make(y.shape(), {&sx, &sm, &y.strides()});
    RowPieces pieces(loop.inner());
    for_each(loop.rows() * pieces.per_row,
             MaskedFillRow<T>{loop, pieces, x.data<T>(), mask.data<bool>(), y.data<T>(), T(value)},
             pieces.cost());
  });
}

SACCADE_REGISTER_KERNEL(binary, &binary_generic);
SACCADE_REGISTER_KERNEL(binary_backward, &binary_backward_generic);
SACCADE_REGISTER_KERNEL(masked_fill, &masked_fill_generic);

}  // namespace
}  // namespace saccade::kernels
