// Scaled-dot-product attention. Keeps its inputs and one number per row; backward recomputes the weights.
#include "core/kernels/attention/attention.h"

#include <cmath>

#include "autograd/ops.h"

namespace saccade {
namespace {

struct Attention {
  static constexpr const char* kName = "attention";
  // The bias is added to the scores, which are always f32 or wider.
  static constexpr std::array kCasts{Cast::kCompute, Cast::kCompute, Cast::kCompute, Cast::kF32};

  Tensor mask;
  kernels::AttentionParams params;
  void describe(OpAttributes& to) const {
    to.add("mask", mask).add("heads", params.heads).add("scale", params.scale).add("dropout", params.dropout);
  }

  // [N, Q, E] x [N, S, E] scores and [N, Q, S] x [N, S, Ev] sums
  static int64_t macs(const Tensors& in, const Tensor& out) {
    return (in[0].numel() + out.numel()) * in[1].dim(1);
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    auto rows = [](const Tensor& t) {
      return t.device() == Device::kCuda && kernels::has_even_rows(t) ? t : t.contiguous();
    };
    Tensor q = rows(in[0]), k = rows(in[1]), v = rows(in[2]), bias = in[3];
    if (bias.defined()) bias = (bias.rank() == 3 ? bias.unsqueeze(0) : bias).contiguous();
    if (params.dropout > 0) {
      auto stream = ctx.random_stream();
      params.key = stream.key;
      params.call = stream.call;
      params.first_row = stream.first_of(q.dim(0) * params.heads * q.dim(1));
    }
    if (mask.defined()) mask = mask.contiguous();
    Tensor y = Tensor::empty({q.dim(0), q.dim(1), v.dim(2)}, q.dtype(), q.device());
    Tensor lse = Tensor::empty({q.dim(0), params.heads, q.dim(1)}, sum_dtype(q.dtype()), q.device());
    kernels::attention_forward(q, k, v, mask, bias, params, y, lse);
    // The next op, a linear layer, keeps the output anyway.
    ctx.save(q, k, v, mask, bias, lse, y.device() == Device::kCuda ? y : Tensor());
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Gradients grads = ctx.empty_gradients(3);
    grads.push_back(ctx.needs(3) ? ctx.saved(4).empty_like() : Tensor());
    Tensor g = dy.to(ctx.saved(0).dtype()).contiguous();
    kernels::attention_backward(ctx.saved(0), ctx.saved(1), ctx.saved(2), ctx.saved(3), ctx.saved(4), params,
                                ctx.saved(5), ctx.saved(6), g, grads[0], grads[1], grads[2], grads[3]);
    if (ctx.needs(3) && bias_rank == 3) grads[3] = grads[3].squeeze(0);
    return grads;
  }

  int bias_rank = 0;
};

}  // namespace

Var attention(const Var& query, const Var& key, const Var& value, const Tensor& key_padding_mask,
              const Var& bias, const AttentionOptions& options) {
  SACCADE_CHECK(query.rank() == 3, "[attention] query, got {}, expected [N, Q, E]", query.shape());
  int64_t N = query.dim(0), Q = query.dim(1), E = query.dim(2), H = options.heads;
  SACCADE_CHECK(key.rank() == 3 && key.dim(0) == N && key.dim(2) == E,
                "[attention] key, got {}, expected [{}, S, {}]", key.shape(), N, E);
  int64_t S = key.dim(1);
  SACCADE_CHECK(value.rank() == 3 && value.dim(0) == N && value.dim(1) == S,
                "[attention] value, got {}, expected [{}, {}, Ev]", value.shape(), N, S);
  SACCADE_CHECK(H > 0 && E % H == 0 && value.dim(2) % H == 0,
                "[attention] {} heads, expected a divisor of both {} and {} channels", H, E, value.dim(2));
  SACCADE_CHECK(options.dropout >= 0 && options.dropout < 1, "[attention] dropout, got {}, expected [0, 1)",
                options.dropout);
  SACCADE_CHECK(!key_padding_mask.defined() ||
                    (key_padding_mask.dtype() == DType::kBool && key_padding_mask.shape() == (Shape{N, S})),
                "[attention] key padding mask, got {} {}, expected bool [{}, {}]", key_padding_mask.dtype(),
                key_padding_mask.shape(), N, S);
  if (bias.defined()) {
    const Shape& b = bias.shape();
    bool fits = (b.rank() == 3 || (b.rank() == 4 && (b[0] == N || b[0] == 1))) &&
                (b[-3] == H || b[-3] == 1) && b[-2] == Q && b[-1] == S;
    SACCADE_CHECK(fits, "[attention] bias, got {}, expected [{} or 1, {}, {}] or [{}, {} or 1, {}, {}]", b, H,
                  Q, S, N, H, Q, S);
  }
  Attention op;
  if (key_padding_mask.defined()) op.mask = key_padding_mask.to(query.device());
  op.params.heads = H;
  const int64_t D = E / H;
  op.params.scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(D));
  op.params.dropout = options.training ? options.dropout : 0;
  op.bias_rank = bias.defined() ? bias.rank() : 0;
  return run_op(std::move(op), {query, key, value, bias});
}

}  // namespace saccade
