#include "core/kernels/conv2d_levels/conv2d_levels.h"
#include "core/kernels/elementwise/elementwise.h"
#include "core/runtime/recording.h"
#include "core/tensor/prepared.h"

#include "autograd/ops.h"
#include "autograd/ops/common.h"
#include "autograd/ops/products/epilogue.h"

namespace saccade {
namespace {

// A model in inference on a GPU keeps its weights in order, too.
Tensor weight_in_order(const Tensor& w) {
  const auto in_order = [&] { return kernels::conv_weight_in_order(w); };
  if (!kernels::conv_weight_has_order(w) || !w.is_contiguous() || !keeps_forms(w)) return in_order();
  const std::string form = fmt::format("in order {}", w.shape());
  auto* recorded = kept_for_recording();
  if (!recorded) return prepared(w, form, in_order);
  Tensor kept = kept_form(w, form);
  if (!kept.defined()) return in_order();  // it has no values until the recording is started
  recorded->push_back(kept.storage());
  return kept;
}

struct Conv2d {
  static constexpr const char* kName = "conv2d";
  static constexpr std::array kCasts{Cast::kCompute, Cast::kCompute, Cast::kF32};
  kernels::ConvParams p;
  Activation act;
  Shape x_shape{}, w_shape{};
  void describe(OpAttributes& to) const {
    to.add("stride", p.stride).add("padding", p.padding).add("dilation", p.dilation).add("groups", p.groups);
    to.add("activation", static_cast<int64_t>(act));
  }

  static int64_t macs(const Tensors& in, const Tensor& out) {
    const Shape& w = in[1].shape();
    return out.numel() * w[1] * w[2] * w[3];
  }

  Tensor forward(Context& ctx, const Tensors& in) {
    return run_activated(ctx, in, result_shape(in),
                         [&](const Tensor& x, const Tensor& w, const Tensor& bias, Activation fused,
                             Tensor& y) { kernels::conv2d_forward(x, w, bias, p, fused, y); });
  }
  Shape result_shape(const Tensors& in) const {
    const Shape &x = in[0].shape(), &w = in[1].shape();
    return {x[0], kernels::conv_output_size(x[1], w[2], p), kernels::conv_output_size(x[2], w[3], p), w[0]};
  }
  // product(x, w, bias, act, y) writes y, with an activation that libraries fuse or without one.
  template <class Product>
  Tensor run_activated(Context& ctx, const Tensors& in, const Shape& result, const Product& product) {
    return run(ctx, in, result, [&](const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
      return detail::activated_product(ctx, act, y,
                                       [&](Activation fused, Tensor& to) { product(x, w, bias, fused, to); });
    });
  }
  // product(x, w, bias, y) writes y and returns what backward needs for the activation.
  template <class Product>
  Tensor run(Context& ctx, const Tensors& in, const Shape& result, const Product& product) {
    x_shape = in[0].shape();
    w_shape = in[1].shape();
    Tensor x = in[0].contiguous(), w = weight_in_order(in[1]);
    Tensor bias = in[2].defined() ? in[2].contiguous() : Tensor();
    Tensor y = Tensor::empty(result, x.dtype(), x.device());
    Tensor saved = product(x, w, bias, y);
    if (saved.defined())
      saved = saved.reshape({saved.numel() / std::max<int64_t>(w_shape[0], 1), w_shape[0]});
    ctx.save(ctx.needs(1) ? x : Tensor(), ctx.needs(0) ? w : Tensor(), saved);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dz;
    return gradients(ctx, dy, dz);
  }
  Gradients gradients(const Context& ctx, const Tensor& dy, Tensor& dz) const {
    return gradients(
        ctx, dy, dz, [&](const Tensor& w, Tensor& dx) { kernels::conv2d_backward_data(dz, w, p, dx); },
        [&](const Tensor& x, Tensor& dw) { kernels::conv2d_backward_weight(dz, x, p, dw); });
  }
  // Sets dz to the gradient before the activation, from which data(w, dx) and weight(x, dw) compute theirs.
  template <class Data, class Weight>
  Gradients gradients(const Context& ctx, const Tensor& dy, Tensor& dz, const Data& data,
                      const Weight& weight) const {
    const Tensor &x = ctx.saved(0), &w = ctx.saved(1), &saved = ctx.saved(2);
    DType type = dy.dtype();
    const bool ours_alone = dy.unique();  // then it may be changed
    int64_t channels = w_shape[0];
    Tensor dx, dw, db,
        rows = dy.contiguous().reshape({dy.numel() / std::max<int64_t>(channels, 1), channels});
    if (ctx.needs(2)) db = ctx.new_gradient(2, {channels}, sum_dtype(type), dy.device());
    dz = detail::product_gradient(act, rows, saved, type, ours_alone, db).reshape(dy.shape());
    if (ctx.needs(0)) {
      dx = Tensor::empty(x_shape, type, dy.device());
      data(w, dx);
    }
    if (ctx.needs(1)) {
      dw = ctx.new_gradient(1, w_shape, sum_dtype(type), dy.device());
      weight(x, dw);
    }
    return {dx, dw, db};
  }
};

struct Conv2dAddRelu : Conv2d {
  static constexpr const char* kName = "conv2d_add_relu";
  static constexpr std::array kCasts{Cast::kCompute, Cast::kCompute, Cast::kF32, Cast::kCompute};

  Tensor forward(Context& ctx, const Tensors& in) {
    const Shape result = result_shape(in);
    SACCADE_CHECK(in[3].shape() == result, "[conv2d_add_relu] residual, got shape {}, expected {}",
                  in[3].shape(), result);
    return run(ctx, in, result, [&](const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
      kernels::conv2d_add_relu(x, w, bias, in[3].contiguous(), p, y);
      return ctx.needs_any() ? y : Tensor();
    });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dz;
    Gradients all = gradients(ctx, dy, dz);
    all.push_back(ctx.needs(3) ? dz : Tensor());
    return all;
  }
};

struct Conv2dReluShift : Conv2d {
  static constexpr const char* kName = "conv2d_relu_shift";

  Tensor forward(Context& ctx, const Tensors& in) {
    return run(ctx, in, result_shape(in),
               [&](const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
                 const Tensor shift = in[3].contiguous();
                 if (!ctx.needs_any()) {
                   kernels::conv2d_relu_shift(x, w, bias, shift, p, y);
                   return Tensor();
                 }
                 Tensor before = y.empty_like();  // from which backward sees where the ReLU cuts
                 kernels::conv2d_forward(x, w, bias, p, act, before);
                 kernels::binary(kernels::BinaryOp::kAdd, before, shift.to(y.dtype()), y);
                 return before;
               });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dz, dshift;
    if (ctx.needs(3)) {  // before dy is overwritten
      dshift = ctx.new_gradient(3, {1}, sum_dtype(dy.dtype()), dy.device());
      kernels::sum_to_shape(dy.contiguous(), 1, dshift);
    }
    Gradients all = gradients(ctx, dy, dz);
    all.push_back(dshift);
    return all;
  }
};

struct Conv2dLevels : Conv2d {
  static constexpr const char* kName = "conv2d_levels";
  FeatureLevels levels;

  Tensor forward(Context& ctx, const Tensors& in) {
    return run_activated(ctx, in, {in[0].dim(0), in[1].dim(0)},
                         [&](const Tensor& x, const Tensor& w, const Tensor& bias, Activation fused,
                             Tensor& y) { kernels::conv2d_levels_forward(x, levels, w, bias, fused, y); });
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dz;
    return gradients(
        ctx, dy, dz,
        [&](const Tensor& w, Tensor& dx) { kernels::conv2d_levels_backward_data(dz, levels, w, dx); },
        [&](const Tensor& x, Tensor& dw) { kernels::conv2d_levels_backward_weight(dz, x, levels, dw); });
  }
};

kernels::ConvParams checked_conv(const Var& x, const Var& weight, const Var& bias, const Conv2dOptions& o) {
  SACCADE_CHECK(x.rank() == 4, "[conv2d] x, got shape {}, expected [N, H, W, C]", x.shape());
  SACCADE_CHECK(weight.rank() == 4, "[conv2d] weight, got shape {}, expected [O, C / groups, R, S]",
                weight.shape());
  SACCADE_CHECK(
      o.stride >= 1 && o.padding >= 0 && o.dilation >= 1 && o.groups >= 1,
      "[conv2d] options, got stride {}, padding {}, dilation {}, groups {}, expected at least 1, 0, 1, 1",
      o.stride, o.padding, o.dilation, o.groups);
  SACCADE_CHECK(
      weight.dim(0) % o.groups == 0 && x.dim(3) == weight.dim(1) * o.groups,
      "[conv2d] got x {} and weight {} with {} groups, expected weight [O, C / groups, R, S] with O and C "
      "divisible by groups",
      x.shape(), weight.shape(), o.groups);
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
                "[conv2d] bias, got shape {}, expected [{}]", bias.shape(), weight.dim(0));
  kernels::ConvParams p{o.stride, o.padding, o.dilation, o.groups};
  SACCADE_CHECK(kernels::conv_output_size(x.dim(1), weight.dim(2), p) > 0 &&
                    kernels::conv_output_size(x.dim(2), weight.dim(3), p) > 0,
                "[conv2d] x {} with padding {} is smaller than the window of weight {} with dilation {}",
                x.shape(), o.padding, weight.shape(), o.dilation);
  return p;
}

}  // namespace

Var conv2d(const Var& x, const Var& weight, const Var& bias, const Conv2dOptions& o, Activation activation) {
  return run_op(Conv2d{checked_conv(x, weight, bias, o), activation}, {x, weight, bias});
}

Var conv2d_add_relu(const Var& x, const Var& weight, const Var& bias, const Var& residual,
                    const Conv2dOptions& o) {
  return run_op(Conv2dAddRelu{{checked_conv(x, weight, bias, o), Activation::kRelu}},
                {x, weight, bias, residual});
}

Var conv2d_relu_shift(const Var& x, const Var& weight, const Var& bias, const Var& shift,
                      const Conv2dOptions& o) {
  SACCADE_CHECK(shift.shape() == Shape{1}, "[conv2d_relu_shift] shift, got shape {}, expected [1]",
                shift.shape());
  return run_op(Conv2dReluShift{{checked_conv(x, weight, bias, o), Activation::kRelu}},
                {x, weight, bias, shift});
}

Var conv2d_levels(const Var& x, const FeatureLevels& levels, const Var& weight, const Var& bias,
                  Activation activation) {
  SACCADE_CHECK(x.rank() == 2 && !levels.empty() && x.dim(0) % levels.tokens() == 0,
                "[conv2d_levels] x, got shape {}, expected [N * cells, C] of levels of {} cells", x.shape(),
                levels.tokens());
  SACCADE_CHECK(weight.rank() == 4 && weight.dim(1) == x.dim(1) && weight.dim(2) == weight.dim(3) &&
                    weight.dim(2) % 2 == 1,
                "[conv2d_levels] weight, got shape {}, expected [O, {}, R, R] with an odd R", weight.shape(),
                x.dim(1));
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
                "[conv2d_levels] bias, got shape {}, expected [{}]", bias.shape(), weight.dim(0));
  return run_op(Conv2dLevels{{{.padding = weight.dim(2) / 2}, activation}, levels}, {x, weight, bias});
}

// A transposed convolution with adjacent windows: every cell becomes its own window, so it is a product
// followed by a permutation of axes.
Var conv_transpose2d(const Var& x, const Var& weight, const Var& bias, int64_t stride,
                     Activation activation) {
  SACCADE_CHECK(x.rank() == 4 && weight.rank() == 4 && x.dim(3) == weight.dim(0),
                "[conv_transpose2d] got x {} and weight {}, expected [N, H, W, C] and [C, C_out, R, S]",
                x.shape(), weight.shape());
  SACCADE_CHECK(stride >= 1 && weight.dim(2) == stride && weight.dim(3) == stride,
                "[conv_transpose2d] stride {} with weight {}, expected windows as large as the stride",
                stride, weight.shape());
  const int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), in = weight.dim(0), out = weight.dim(1);
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{out},
                "[conv_transpose2d] bias, got shape {}, expected [{}]", bias.shape(), out);
  const int64_t places = stride * stride;
  const int rows_first[] = {2, 3, 1, 0}, places_apart[] = {0, 1, 3, 2, 4, 5};
  const Var rows = reshape(permute(weight, rows_first), {places * out, in});
  const Var biases =
      bias.defined() ? reshape(expand(reshape(bias, {1, out}), {places, out}), {places * out}) : Var();
  const Var y = reshape(linear(x, rows, biases, activation), {N, H, W, stride, stride, out});
  return reshape(permute(y, places_apart), {N, H * stride, W * stride, out});
}

}  // namespace saccade
