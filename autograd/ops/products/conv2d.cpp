#include "core/kernels/conv2d/conv2d.h"

#include "autograd/ops.h"
#include "autograd/ops/products/epilogue.h"

namespace saccade {
namespace {

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
    return run(ctx, in, [&](const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
      return detail::activated_product(ctx, act, y, [&](Activation fused, Tensor& to) {
        kernels::conv2d_forward(x, w, bias, p, fused, to);
      });
    });
  }
  // product(x, w, bias, y) writes y and returns what backward wants of the activation.
  template <class Product>
  Tensor run(Context& ctx, const Tensors& in, const Product& product) {
    x_shape = in[0].shape();
    w_shape = in[1].shape();
    Tensor x = in[0].contiguous(), w = kernels::conv_weight_in_order(in[1]);
    Tensor bias = in[2].defined() ? in[2].contiguous() : Tensor();
    int64_t oh = kernels::conv_output_size(x_shape[1], w_shape[2], p);
    int64_t ow = kernels::conv_output_size(x_shape[2], w_shape[3], p);
    Tensor y = Tensor::empty({x_shape[0], oh, ow, w_shape[0]}, x.dtype(), x.device());
    Tensor saved = product(x, w, bias, y);
    ctx.save(ctx.needs(1) ? x : Tensor());
    ctx.save(ctx.needs(0) ? w : Tensor());
    ctx.save(saved.defined() ? saved.reshape({saved.numel() / std::max<int64_t>(w_shape[0], 1), w_shape[0]})
                             : saved);
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor dz;
    return gradients(ctx, dy, dz);
  }
  // dz becomes the gradient before the activation.
  Gradients gradients(const Context& ctx, const Tensor& dy, Tensor& dz) const {
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
      kernels::conv2d_backward_data(dz, w, p, dx);
    }
    if (ctx.needs(1)) {
      dw = ctx.new_gradient(1, w_shape, sum_dtype(type), dy.device());
      kernels::conv2d_backward_weight(dz, x, p, dw);
    }
    return {dx, dw, db};
  }
};

struct Conv2dAddRelu : Conv2d {
  static constexpr const char* kName = "conv2d_add_relu";
  static constexpr std::array kCasts{Cast::kCompute, Cast::kCompute, Cast::kF32, Cast::kCompute};

  Tensor forward(Context& ctx, const Tensors& in) {
    return run(ctx, in, [&](const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
      SACCADE_CHECK(in[3].shape() == y.shape(), "[conv2d_add_relu] residual, got shape {}, expected {}",
                    in[3].shape().to_string(), y.shape().to_string());
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

kernels::ConvParams checked_conv(const Var& x, const Var& weight, const Var& bias, const Conv2dOptions& o) {
  SACCADE_CHECK(x.rank() == 4, "[conv2d] x, got shape {}, expected [N, H, W, C]", x.shape().to_string());
  SACCADE_CHECK(weight.rank() == 4, "[conv2d] weight, got shape {}, expected [O, C / groups, R, S]",
                weight.shape().to_string());
  SACCADE_CHECK(
      o.stride >= 1 && o.padding >= 0 && o.dilation >= 1 && o.groups >= 1,
      "[conv2d] options, got stride {}, padding {}, dilation {}, groups {}, expected at least 1, 0, 1, 1",
      o.stride, o.padding, o.dilation, o.groups);
  SACCADE_CHECK(
      weight.dim(0) % o.groups == 0 && x.dim(3) == weight.dim(1) * o.groups,
      "[conv2d] got x {} and weight {} with {} groups, expected weight [O, C / groups, R, S] with O and C "
      "divisible by groups",
      x.shape().to_string(), weight.shape().to_string(), o.groups);
  SACCADE_CHECK(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
                "[conv2d] bias, got shape {}, expected [{}]", bias.shape().to_string(), weight.dim(0));
  kernels::ConvParams p{o.stride, o.padding, o.dilation, o.groups};
  SACCADE_CHECK(kernels::conv_output_size(x.dim(1), weight.dim(2), p) > 0 &&
                    kernels::conv_output_size(x.dim(2), weight.dim(3), p) > 0,
                "[conv2d] x {} with padding {} is smaller than the window of weight {} with dilation {}",
                x.shape().to_string(), o.padding, weight.shape().to_string(), o.dilation);
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

}  // namespace saccade
