// Attention of the tokens of a map to those around them. Keeps its inputs and one number per query and head;
// backward recomputes the weights.
#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"

#include <cmath>

#include "autograd/ops.h"

namespace saccade {
namespace {

struct NeighbourhoodAttention {
  static constexpr const char* kName = "neighbourhood_attention";
  // The table is added to the scores, which are f32 or wider.
  static constexpr std::array kCasts{Cast::kCompute, Cast::kF32};

  Tensor mask;
  kernels::NeighbourhoodParams params;
  void describe(OpAttributes& to) const {
    to.add("mask", mask).add("heads", params.heads).add("window", params.window).add("scale", params.scale);
  }

  int64_t macs(const Tensors&, const Tensor& out) const {
    return 2 * out.numel() * params.window * params.window;
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    Tensor qkv = in[0].contiguous();
    Tensor table = in[1].defined() ? in[1].contiguous() : Tensor();
    if (mask.defined()) mask = mask.contiguous();
    const int64_t N = qkv.dim(0), H = qkv.dim(1), W = qkv.dim(2);
    Tensor y = Tensor::empty({N, H, W, qkv.dim(3) / 3}, qkv.dtype(), qkv.device());
    Tensor lse = Tensor::empty({N, params.heads, H, W}, sum_dtype(qkv.dtype()), qkv.device());
    kernels::neighbourhood_attention_forward(qkv, table, mask, params, y, lse);
    ctx.save(qkv, table, mask, lse);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads = ctx.empty_gradients(2);
    const Tensor& qkv = ctx.saved(0);
    Tensor g = dy.to(qkv.dtype()).contiguous();
    kernels::neighbourhood_attention_backward(qkv, ctx.saved(1), ctx.saved(2), params, ctx.saved(3), g,
                                              grads[0], grads[1]);
    return grads;
  }
};

}  // namespace

Var neighbourhood_attention(const Var& qkv, const Var& table, const Tensor& mask,
                            const NeighbourhoodAttentionOptions& options) {
  const int64_t heads = options.heads, window = options.window, side = 2 * window - 1;
  SACCADE_CHECK(
      qkv.rank() == 4 && heads > 0 && qkv.dim(3) % (3 * heads) == 0,
      "[neighbourhood_attention] qkv, got {} with {} heads, expected [N, H, W, 3C], C divisible by the heads",
      qkv.shape(), heads);
  SACCADE_CHECK(window > 0 && window % 2 == 1 && qkv.dim(1) >= window && qkv.dim(2) >= window,
                "[neighbourhood_attention] a window of {} in a map of {} x {}, expected an odd one that fits",
                window, qkv.dim(1), qkv.dim(2));
  SACCADE_CHECK(!table.defined() || table.shape() == (Shape{heads, side, side}),
                "[neighbourhood_attention] table, got {}, expected [{}, {}, {}]", table.shape(), heads, side,
                side);
  SACCADE_CHECK(!mask.defined() || (mask.dtype() == DType::kBool &&
                                    mask.shape() == (Shape{qkv.dim(0), qkv.dim(1), qkv.dim(2)})),
                "[neighbourhood_attention] mask, got {} {}, expected bool [{}, {}, {}]", mask.dtype(),
                mask.shape(), qkv.dim(0), qkv.dim(1), qkv.dim(2));
  const auto size = static_cast<double>(qkv.dim(3) / 3 / heads);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(size);
  NeighbourhoodAttention op{mask.defined() ? mask.to(qkv.device()) : mask,
                            {.heads = heads, .window = window, .scale = scale}};
  return run_op(std::move(op), {qkv, table});
}

}  // namespace saccade
