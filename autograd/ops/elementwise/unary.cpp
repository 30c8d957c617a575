// Elementwise ops of one tensor.
#include "core/kernels/unary/unary.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

template <class F>
struct Unary {
  static constexpr const char* kName = F::kName;
  static constexpr auto macs = no_macs;
  kernels::UnaryOp op;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous(), y = x.empty_like();
    kernels::unary(op, x, y);
    ctx.save(F::kFromValue ? y : x);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    kernels::unary_backward(op, ctx.saved(0), dy.contiguous(), dx);
    return {dx};
  }
};

struct ScaleShift {
  static constexpr const char* kName = "scale_shift";
  static constexpr auto macs = no_macs;
  double scale, shift;
  void describe(OpAttributes& to) const { to.add("scale", scale).add("shift", shift); }

  Tensor forward(Context&, const Tensors& in) const {
    Tensor y = in[0].empty_like();
    kernels::scale_shift(in[0].contiguous(), scale, shift, y);
    return y;
  }
  Gradients backward(const Context&, const Tensor& dy) const {
    if (scale == 1) return {dy};
    Tensor dx = dy.empty_like();
    kernels::scale_shift(dy.contiguous(), scale, 0, dx);
    return {dx};
  }
};

struct Clamp {
  static constexpr const char* kName = "clamp";
  static constexpr auto macs = no_macs;
  double low, high;
  void describe(OpAttributes& to) const { to.add("low", low).add("high", high); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(low <= high, "[clamp] bounds out of order, got low {} and high {}", low, high);
    Tensor x = in[0].contiguous(), y = x.empty_like();
    kernels::clamp(x, low, high, y);
    ctx.save(x);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = dy.empty_like();
    kernels::clamp_backward(ctx.saved(0), low, high, dy.contiguous(), dx);
    return {dx};
  }
};

struct InverseSigmoid {
  static constexpr const char* kName = "inverse_sigmoid";
  static constexpr std::array kCasts{Cast::kF32};  // box coordinates
  static constexpr auto macs = no_macs;
  double eps;
  void describe(OpAttributes& to) const { to.add("eps", eps); }

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(eps > 0 && eps < 0.5, "[inverse_sigmoid] eps out of range, got {}, expected 0 < eps < 0.5",
                  eps);
    Tensor x = in[0].contiguous(), y = x.empty_like();
    kernels::inverse_sigmoid(x, eps, y);
    ctx.save(x);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = dy.empty_like();
    kernels::inverse_sigmoid_backward(ctx.saved(0), eps, dy.contiguous(), dx);
    return {dx};
  }
};

struct ToDType {
  static constexpr const char* kName = "cast";
  static constexpr auto macs = no_macs;
  DType dtype;

  Tensor forward(Context&, const Tensors& in) const {
    SACCADE_CHECK(is_float(dtype) && is_float(in[0].dtype()),
                  "[cast] from {} to {}, expected floating dtypes", in[0].dtype(), dtype);
    return in[0].to(dtype);
  }
  Gradients backward(const Context&, const Tensor& dy) const { return {dy}; }  // the engine casts it back
};

}  // namespace

Var unary(kernels::UnaryOp op, const Var& x) {
  Var y;
  kernels::with_unary(op, [&]<class F>() { y = run_op(Unary<F>{op}, {x}); });
  return y;
}

Var add_scalar(const Var& x, double s) { return run_op(ScaleShift{1, s}, {x}); }
Var mul_scalar(const Var& x, double s) { return run_op(ScaleShift{s, 0}, {x}); }
Var neg(const Var& x) { return run_op(ScaleShift{-1, 0}, {x}); }
Var clamp(const Var& x, double low, double high) { return run_op(Clamp{low, high}, {x}); }
Var inverse_sigmoid(const Var& x, double eps) { return run_op(InverseSigmoid{eps}, {x}); }
Var cast(const Var& x, DType dtype) { return run_op(ToDType{dtype}, {x}); }

}  // namespace saccade
