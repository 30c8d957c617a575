// Elementwise ops of one tensor.
#include "core/kernels/unary/unary.h"

#include "autograd/ops.h"

namespace saccade {
namespace {

using kernels::UnaryOp;

constexpr const char* name_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::kExp:
      return "exp";
    case UnaryOp::kLog:
      return "log";
    case UnaryOp::kSqrt:
      return "sqrt";
    case UnaryOp::kAbs:
      return "abs";
    case UnaryOp::kSquare:
      return "square";
    case UnaryOp::kRelu:
      return "relu";
    case UnaryOp::kGelu:
      return "gelu";
    case UnaryOp::kSigmoid:
      return "sigmoid";
    case UnaryOp::kTanh:
      return "tanh";
  }
  return "unary";
}

template <UnaryOp kOp>
struct Unary {
  static constexpr const char* kName = name_of(kOp);
  static constexpr Policy kPolicy = Policy::kSame;

  Tensor forward(Context& ctx, const Tensors& in) const {
    Tensor x = in[0].contiguous(), y = x.empty_like();
    kernels::unary(kOp, x, y);
    if (ctx.needs(0)) ctx.save(kernels::saves_output(kOp) ? y : x);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    kernels::unary_backward(kOp, ctx.saved(0), dy.contiguous(), dx);
    return {dx};
  }
};

struct ScaleShift {
  static constexpr const char* kName = "scale_shift";
  static constexpr Policy kPolicy = Policy::kSame;
  double scale, shift;

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
  static constexpr Policy kPolicy = Policy::kSame;
  double low, high;

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(low <= high, "[clamp] bounds out of order, got low {} and high {}", low, high);
    Tensor x = in[0].contiguous(), y = x.empty_like();
    kernels::clamp(x, low, high, y);
    if (ctx.needs(0)) ctx.save(x);
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
  static constexpr Policy kPolicy = Policy::kF32;  // box coordinates
  double eps;

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(eps > 0 && eps < 0.5, "[inverse_sigmoid] eps out of range, got {}, expected 0 < eps < 0.5",
                  eps);
    Tensor x = in[0].contiguous(), y = x.empty_like();
    kernels::inverse_sigmoid(x, eps, y);
    if (ctx.needs(0)) ctx.save(x);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dx = dy.empty_like();
    kernels::inverse_sigmoid_backward(ctx.saved(0), eps, dy.contiguous(), dx);
    return {dx};
  }
};

struct Cast {
  static constexpr const char* kName = "cast";
  static constexpr Policy kPolicy = Policy::kSame;
  DType dtype;

  Tensor forward(Context&, const Tensors& in) const {
    SACCADE_CHECK(is_float(dtype) && is_float(in[0].dtype()),
                  "[cast] from {} to {}, expected floating dtypes", saccade::name_of(in[0].dtype()),
                  saccade::name_of(dtype));
    return in[0].to(dtype);
  }
  Gradients backward(const Context&, const Tensor& dy) const { return {dy}; }  // the engine casts it back
};

}  // namespace

Var add_scalar(const Var& x, double s) { return run_op(ScaleShift{1, s}, {x}); }
Var mul_scalar(const Var& x, double s) { return run_op(ScaleShift{s, 0}, {x}); }
Var neg(const Var& x) { return run_op(ScaleShift{-1, 0}, {x}); }
Var exp(const Var& x) { return run_op(Unary<UnaryOp::kExp>{}, {x}); }
Var log(const Var& x) { return run_op(Unary<UnaryOp::kLog>{}, {x}); }
Var sqrt(const Var& x) { return run_op(Unary<UnaryOp::kSqrt>{}, {x}); }
Var abs(const Var& x) { return run_op(Unary<UnaryOp::kAbs>{}, {x}); }
Var square(const Var& x) { return run_op(Unary<UnaryOp::kSquare>{}, {x}); }
Var relu(const Var& x) { return run_op(Unary<UnaryOp::kRelu>{}, {x}); }
Var gelu(const Var& x) { return run_op(Unary<UnaryOp::kGelu>{}, {x}); }
Var sigmoid(const Var& x) { return run_op(Unary<UnaryOp::kSigmoid>{}, {x}); }
Var tanh(const Var& x) { return run_op(Unary<UnaryOp::kTanh>{}, {x}); }
Var clamp(const Var& x, double low, double high) { return run_op(Clamp{low, high}, {x}); }
Var inverse_sigmoid(const Var& x, double eps) { return run_op(InverseSigmoid{eps}, {x}); }
Var cast(const Var& x, DType dtype) { return run_op(Cast{dtype}, {x}); }

}  // namespace saccade
