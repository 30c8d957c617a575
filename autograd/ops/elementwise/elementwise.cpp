// Elementwise ops of two tensors with NumPy broadcasting.
#include "core/kernels/elementwise/elementwise.h"

#include "autograd/ops.h"
#include "autograd/ops/common.h"
#include "core/kernels/unary/unary.h"

namespace saccade {
namespace {

using kernels::BinaryOp;

Tensor run_binary(BinaryOp op, const Tensor& a, const Tensor& b, const char* name) {
  Tensor y = Tensor::empty(broadcast_shapes(a.shape(), b.shape(), name), a.dtype(), a.device());
  kernels::binary(op, a, b, y);
  return y;
}

// add and sub save no values.
template <BinaryOp kOp>
struct Sum {
  static constexpr const char* kName = kOp == BinaryOp::kAdd ? "add" : "sub";
  static constexpr auto macs = no_macs;
  Shape a, b;

  Tensor forward(Context&, const Tensors& in) {
    a = in[0].shape();
    b = in[1].shape();
    const DType type = widest(in[0].dtype(), in[1].dtype());
    if (kOp == BinaryOp::kSub || type != DType::kF32 || in[0].dtype() == in[1].dtype())
      return run_binary(kOp, in[0].to(type), in[1].to(type), kName);
    Tensor y = Tensor::empty(broadcast_shapes(a, b, kName), type, in[0].device());
    kernels::add_wide(in[0], in[1], y);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients g(2);
    if (ctx.needs(0)) g[0] = sum_to(dy, a);
    if (ctx.needs(1)) g[1] = sum_to(dy, b, kOp == BinaryOp::kAdd ? 1 : -1);
    return g;
  }
};

template <BinaryOp kOp>
struct Binary {
  static constexpr const char* kName = kOp == BinaryOp::kMul       ? "mul"
                                       : kOp == BinaryOp::kDiv     ? "div"
                                       : kOp == BinaryOp::kMaximum ? "maximum"
                                                                   : "minimum";
  static constexpr std::array kCasts{Cast::kWidest};
  static constexpr auto macs = no_macs;
  Shape shapes[2];

  Tensor forward(Context& ctx, const Tensors& in) {
    for (size_t i = 0; i < 2; ++i) shapes[i] = in[i].shape();
    // d(a b)/da needs b only, d(a / b)/da too; everything else needs both.
    bool needs_a = kOp == BinaryOp::kMul || kOp == BinaryOp::kDiv ? ctx.needs(1) : ctx.needs_any();
    bool needs_b = kOp == BinaryOp::kMul ? ctx.needs(0) : ctx.needs_any();
    ctx.save(needs_a ? in[0] : Tensor(), needs_b ? in[1] : Tensor());
    return run_binary(kOp, in[0], in[1], kName);
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients g(2);
    const Tensor &a = ctx.saved(0), &b = ctx.saved(1);
    for (int side = 0; side < 2; ++side) {
      auto i = static_cast<size_t>(side);
      if (!ctx.needs(i)) continue;
      Tensor full = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
      // An operand that was not saved is not read, so any tensor can stand in for it.
      kernels::binary_backward(kOp, side, dy, a.defined() ? a : dy, b.defined() ? b : dy, full);
      g[i] = sum_to(full, shapes[i]);
    }
    return g;
  }
};

struct AddRelu {
  static constexpr const char* kName = "add_relu";
  static constexpr std::array kCasts{Cast::kWidest};
  static constexpr auto macs = no_macs;

  Tensor forward(Context& ctx, const Tensors& in) const {
    SACCADE_CHECK(in[0].shape() == in[1].shape(), "[add_relu] shapes differ, got {} and {}", in[0].shape(),
                  in[1].shape());
    Tensor y = run_binary(BinaryOp::kAddRelu, in[0], in[1], kName);
    ctx.save(y);
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor g = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    kernels::unary_backward(kernels::unary_op(Activation::kRelu), ctx.saved(0), dy.contiguous(), g);
    return {ctx.needs(0) ? g : Tensor(), ctx.needs(1) ? g : Tensor()};
  }
};

}  // namespace

Var add(const Var& a, const Var& b) { return run_op(Sum<BinaryOp::kAdd>{}, {a, b}); }
Var sub(const Var& a, const Var& b) { return run_op(Sum<BinaryOp::kSub>{}, {a, b}); }
Var mul(const Var& a, const Var& b) { return run_op(Binary<BinaryOp::kMul>{}, {a, b}); }
Var div(const Var& a, const Var& b) { return run_op(Binary<BinaryOp::kDiv>{}, {a, b}); }
Var maximum(const Var& a, const Var& b) { return run_op(Binary<BinaryOp::kMaximum>{}, {a, b}); }
Var minimum(const Var& a, const Var& b) { return run_op(Binary<BinaryOp::kMinimum>{}, {a, b}); }
Var add_relu(const Var& a, const Var& b) { return run_op(AddRelu{}, {a, b}); }

}  // namespace saccade
