// Attention inside the windows of a token map. Keeps its inputs and one number per row; backward recomputes
// the weights.
#include "core/kernels/window_attention/window_attention.h"

#include <cmath>

#include "autograd/ops.h"

namespace saccade {
namespace {

struct WindowAttention {
  static constexpr const char* kName = "window_attention";
  // The table is added to the scores, which are f32 or wider.
  static constexpr std::array kCasts{Cast::kCompute, Cast::kF32, Cast::kCompute};

  Tensor mask;
  kernels::WindowParams params;
  void describe(OpAttributes& to) const {
    to.add("mask", mask).add("heads", params.heads).add("window", params.window).add("shift", params.shift);
    to.add("scale", params.scale);
  }

  // Scores and sums of every window, including the tokens that fill up the last windows.
  int64_t macs(const Tensors& in, const Tensor& out) const {
    kernels::WindowGeometry map(out.dim(1), out.dim(2), params);
    int64_t tokens = params.window * params.window;
    return 2 * in[0].dim(0) * map.count() * tokens * tokens * out.dim(3);
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor qkv = in[0].contiguous();
    Tensor table = in[1].defined() ? in[1].contiguous() : Tensor();
    Tensor padding =
        in[2].defined() ? in[2].contiguous() : Tensor::zeros({qkv.dim(3)}, qkv.dtype(), qkv.device());
    if (mask.defined()) mask = mask.contiguous();
    kernels::WindowGeometry map(qkv.dim(1), qkv.dim(2), params);
    Tensor y = Tensor::empty({qkv.dim(0), qkv.dim(1), qkv.dim(2), qkv.dim(3) / 3}, qkv.dtype(), qkv.device());
    Tensor lse = Tensor::empty({qkv.dim(0), map.count(), params.heads, params.window * params.window},
                               sum_dtype(qkv.dtype()), qkv.device());
    kernels::window_attention_forward(qkv, table, padding, mask, params, y, lse);
    ctx.save(qkv, table, padding, mask, lse);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads = ctx.empty_gradients(2);
    const Tensor& qkv = ctx.saved(0);
    grads.resize(3);
    if (ctx.needs(2))
      grads[2] = ctx.new_gradient(2, ctx.saved(2).shape(), sum_dtype(qkv.dtype()), qkv.device());
    Tensor g = dy.to(qkv.dtype()).contiguous();
    kernels::window_attention_backward(qkv, ctx.saved(1), ctx.saved(2), ctx.saved(3), params, ctx.saved(4), g,
                                       grads[0], grads[1], grads[2]);
    return grads;
  }
};

}  // namespace

Var window_attention(const Var& qkv, const Var& table, const Var& padding, const Tensor& mask,
                     const WindowAttentionOptions& options) {
  int64_t heads = options.heads, window = options.window;
  SACCADE_CHECK(
      qkv.rank() == 4 && heads > 0 && qkv.dim(3) % (3 * heads) == 0,
      "[window_attention] qkv, got {} with {} heads, expected [N, H, W, 3C], C divisible by the heads",
      qkv.shape(), heads);
  SACCADE_CHECK(window > 0 && options.shift >= 0 && options.shift < window,
                "[window_attention] window {} shifted by {}, expected 0 <= shift < window", window,
                options.shift);
  if (table.defined()) {
    int64_t side = 2 * window - 1;
    while (side * side < table.dim(0)) side += 2;
    SACCADE_CHECK(table.rank() == 2 && table.dim(0) == side * side && table.dim(1) == heads,
                  "[window_attention] table, got {}, expected [(2t - 1)^2, {}] with t at least the window {}",
                  table.shape(), heads, window);
  }
  SACCADE_CHECK(!padding.defined() || padding.shape() == Shape{qkv.dim(3)},
                "[window_attention] padding, got {}, expected [{}]", padding.shape(), qkv.dim(3));
  SACCADE_CHECK(!mask.defined() || (mask.dtype() == DType::kBool &&
                                    mask.shape() == (Shape{qkv.dim(0), qkv.dim(1), qkv.dim(2)})),
                "[window_attention] mask, got {} {}, expected bool [{}, {}, {}]", mask.dtype(), mask.shape(),
                qkv.dim(0), qkv.dim(1), qkv.dim(2));
  int64_t D = qkv.dim(3) / 3 / heads;
  double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(D));
  WindowAttention op{mask.defined() ? mask.to(qkv.device()) : mask,
                     {.heads = heads, .window = window, .shift = options.shift, .scale = scale}};
  return run_op(std::move(op), {qkv, table, padding});
}

}  // namespace saccade
