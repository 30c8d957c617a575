#include "core/kernels/elementwise/elementwise.h"

#include "core/kernels/common/map_strided.h"
#include "core/kernels/copy/convert.h"
#include "core/kernels/elementwise/elementwise_ops.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// Functors that compute in the accumulation type of T.
template <class T, class Op>
struct Value {
  using A = acc_t<T>;
  SACCADE_HD T operator()(T a, T b) const { return T(Op::value(A(a), A(b))); }
};
template <class T, class Op, int kSide>
struct Gradient {
  using A = acc_t<T>;
  SACCADE_HD T operator()(T dy, T a, T b) const {
    if constexpr (kSide == 0) return T(Op::gradient_a(A(dy), A(a), A(b)));
    return T(Op::gradient_b(A(dy), A(a), A(b)));
  }
};

template <class T>
struct Masked {
  T value;
  SACCADE_HD T operator()(T x, bool mask) const { return mask ? value : x; }
};

void binary_generic(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  SACCADE_CHECK(y.is_contiguous(), "[binary] the output must be contiguous");
  if (y.numel() == 0) return;
  auto loop = loop_over(y, a, b);
  dispatch_float(y.dtype(), "binary", [&]<class T>() {
    BinaryFunctions::visit(static_cast<int>(op), [&]<class Op>() {
      map_strided(loop, Value<T, Op>{}, y.data<T>(), a.data<T>(), b.data<T>());
    });
  });
}

struct AddWide {
  template <class A, class B>
  SACCADE_HD float operator()(A a, B b) const {
    return static_cast<float>(a) + static_cast<float>(b);
  }
};

void add_wide_generic(const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.numel() == 0) return;
  const bool alike = a.shape() == b.shape() && a.is_contiguous() && b.is_contiguous();
  auto run = [&](const auto* pa, const auto* pb) {
    alike ? map_each(y.numel(), AddWide{}, y.data<float>(), pa, pb)
          : map_strided(loop_over(y, a, b), AddWide{}, y.data<float>(), pa, pb);
  };
  auto with_b = [&](const auto* pa) {
    b.dtype() == DType::kBF16 ? run(pa, b.data<bf16>()) : run(pa, b.data<float>());
  };
  a.dtype() == DType::kBF16 ? with_b(a.data<bf16>()) : with_b(a.data<float>());
}

void binary_backward_generic(BinaryOp op, int side, const Tensor& dy, const Tensor& a, const Tensor& b,
                             Tensor& dx) {
  SACCADE_CHECK(dx.is_contiguous(), "[binary_backward] the output must be contiguous");
  bool known = false;
  BinaryFunctions::visit(static_cast<int>(op), [&]<class Op>() { known = kHasGradient<Op>; });
  SACCADE_CHECK(known, "[binary_backward] op {} has no kernel of its own", static_cast<int>(op));
  if (dx.numel() == 0) return;
  auto loop = loop_over(dx, dy, a, b);
  dispatch_float(dx.dtype(), "binary_backward", [&]<class T>() {
    auto run = [&](const auto& f) {
      map_strided(loop, f, dx.data<T>(), dy.data<T>(), a.data<T>(), b.data<T>());
    };
    BinaryFunctions::visit(static_cast<int>(op), [&]<class Op>() {
      if constexpr (kHasGradient<Op>) side == 0 ? run(Gradient<T, Op, 0>{}) : run(Gradient<T, Op, 1>{});
    });
  });
}

void masked_fill_generic(const Tensor& x, const Tensor& mask, double value, Tensor& y) {
  SACCADE_CHECK(y.is_contiguous(), "[masked_fill] the output must be contiguous");
  if (y.numel() == 0) return;
  auto loop = loop_over(y, x, mask);
  dispatch_float(y.dtype(), "masked_fill", [&]<class T>() {
    using Unit = Bits<sizeof(T)>;
    map_strided(loop, Masked<Unit>{std::bit_cast<Unit>(T(value))}, static_cast<Unit*>(y.raw()),
                static_cast<const Unit*>(x.raw()), mask.data<bool>());
  });
}

SACCADE_REGISTER_KERNEL(binary, &binary_generic);
SACCADE_REGISTER_KERNEL(add_wide, &add_wide_generic);
SACCADE_REGISTER_KERNEL(binary_backward, &binary_backward_generic);
SACCADE_REGISTER_KERNEL(masked_fill, &masked_fill_generic);

}  // namespace
}  // namespace saccade::kernels
