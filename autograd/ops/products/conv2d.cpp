#include "core/kernels/conv2d/conv2d.h"

#include "autograd/ops.h"
#include "autograd/ops/compute_cast.h"
#include "core/kernels/activation/activation.h"
#include "core/kernels/copy/copy.h"

namespace saccade {
namespace {

// The weight in the dtype of the computation. cuDNN wants [O, R, S, C]: on the GPU a weight is turned once
// for both directions, in the pass that casts it.
Tensor weight_in(const Tensor& w, DType type) {
  if (w.device() == Device::kCpu || w.dim(1) == 1 || w.dim(2) * w.dim(3) == 1)
    return detail::to_compute(w, type).contiguous();
  Tensor turned = Tensor::empty({w.dim(0), w.dim(2), w.dim(3), w.dim(1)}, type, w.device());
  kernels::copy(w.permute({0, 2, 3, 1}), turned);
  return turned.permute({0, 3, 1, 2});
}

struct Conv2d {
  static constexpr const char* kName = "conv2d";
  static constexpr Policy kPolicy = Policy::kSame;  // casts itself: the bias stays wide
  kernels::ConvParams p;
  Activation act;
  Shape x_shape{}, w_shape{};

  Tensor forward(Context& ctx, const Tensors& in) {
    DType type = detail::compute_dtype(in);
    x_shape = in[0].shape();
    w_shape = in[1].shape();
    Tensor x = in[0].to(type).contiguous(), w = weight_in(in[1], type);
    Tensor bias = in[2].defined() ? in[2].to(detail::sum_dtype(type)).contiguous() : Tensor();
    int64_t oh = kernels::conv_output_size(x_shape[1], w_shape[2], p);
    int64_t ow = kernels::conv_output_size(x_shape[2], w_shape[3], p);
    Tensor y = Tensor::empty({x_shape[0], oh, ow, w_shape[0]}, type, x.device()), z;
    if (act == Activation::kGelu) {
      z = y.empty_like();
      kernels::conv2d_forward(x, w, bias, p, Activation::kNone, z);
      kernels::activation_forward(act, z, y, z);  // z becomes the slope
    } else {
      kernels::conv2d_forward(x, w, bias, p, act, y);
    }
    ctx.save(ctx.needs(1) ? x : Tensor());
    ctx.save(ctx.needs(0) ? w : Tensor());
    ctx.save(!ctx.needs_any()           ? Tensor()
             : act == Activation::kGelu ? z
             : act == Activation::kRelu ? y
                                        : Tensor());
    return y;
  }

  Gradients backward(const Context& ctx, const Tensor& dy) const {
    const Tensor &x = ctx.saved(0), &w = ctx.saved(1), &saved = ctx.saved(2);
    DType type = dy.dtype();
    int64_t channels = w_shape[0];
    Tensor dz = dy.contiguous(), dx, dw, db;
    Shape rows{channels == 0 ? 0 : dz.numel() / channels, channels};
    if (ctx.needs(2)) db = Tensor::empty({channels}, detail::sum_dtype(type), dy.device());
    if (act != Activation::kNone) {
      Tensor masked = Tensor::empty(rows, type, dy.device());
      kernels::activation_backward(act, dz.reshape(rows), saved.reshape(rows), masked, db);
      dz = masked.reshape(dy.shape());
    } else if (db.defined()) {
      Tensor none;
      kernels::activation_backward(act, dz.reshape(rows), none, none, db);
    }
    if (ctx.needs(0)) {
      dx = Tensor::empty(x_shape, type, dy.device());
      kernels::conv2d_backward_data(dz, w, p, dx);
    }
    if (ctx.needs(1)) {
      dw = Tensor::empty(w_shape, detail::sum_dtype(type), dy.device());
      kernels::conv2d_backward_weight(dz, x, p, dw);
    }
    return {dx, dw, db};
  }
};

}  // namespace

Var conv2d(const Var& x, const Var& weight, const Var& bias, const Conv2dOptions& o, Activation activation) {
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
  return run_op(Conv2d{p, activation}, {x, weight, bias});
}

}  // namespace saccade
