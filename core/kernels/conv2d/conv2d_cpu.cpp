// Convolutions through oneDNN: activations stay [N, H, W, C], the weights take the layout that the primitive
// asks for. 1x1 convolutions of stride 1 are matrix products over the pixels. 3x3 convolutions take
// Winograd's algorithm (Lavin and Gray, arXiv:1509.09308) where it pays: with AVX-512 oneDNN's F(4x4, 3x3),
// if f32 products need not be exact, since its largest error is one and a half to four times that of plain
// sums; without it ours (winograd_cpu.h), which has one whose error is no larger.
#include "core/kernels/conv2d/conv2d.h"

#include <optional>

#include "core/kernels/conv2d/conv2d_as_product.h"
#include "core/kernels/conv2d/depthwise_cpu.h"
#include "core/kernels/conv2d/packed_conv_cpu.h"
#include "core/kernels/conv2d/winograd_cpu.h"
#include "core/runtime/cpu/onednn.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"

namespace saccade::kernels {
namespace {

using namespace onednn;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;

bool suits_winograd(const Tensor& w, const ConvParams& p) {
  constexpr int64_t kChannels = 16;
  return w.dim(2) == 3 && w.dim(3) == 3 && p.padding == 1 && p.dilation == 1 && p.groups == 1 &&
         w.dim(0) % kChannels == 0 && w.dim(1) % kChannels == 0;
}
// oneDNN's.
bool may_be_winograd(const Tensor& x, const Tensor& w, const ConvParams& p) {
  return has_avx512() && execution().math == MathMode::kTf32 && x.dtype() == DType::kF32 && p.stride == 1 &&
         suits_winograd(w, p);
}
// Ours, where its tiles are well filled and the taps' transform pays; what it adds to the rounding of bf16 is
// nothing. With stride 2 it takes `strided` positions, more for the gradient of the weights.
std::optional<cpu::Winograd> winograd_kind(const Tensor& y, const Tensor& w, const ConvParams& p,
                                           int64_t strided = 400) {
  if (has_avx512() || !suits_winograd(w, p)) return {};
  const int64_t positions = y.dim(1) * y.dim(2);
  if (p.stride == 2 && positions >= strided && std::min(w.dim(0), w.dim(1)) >= 64)
    return cpu::Winograd::kStrided;
  const bool exact = execution().math == MathMode::kExact && y.dtype() == DType::kF32;
  const int64_t tile = exact ? 3 : 4, tiled = round_up(y.dim(1), tile) * round_up(y.dim(2), tile);
  if (p.stride != 1 || positions < 64 || tiled > 2 * positions) return {};
  return exact ? cpu::Winograd::kSame3 : cpu::Winograd::kSame4;
}

// Descriptions of one convolution: the caller's layouts, and those for a primitive (`_any`), which chooses
// the weights', and Winograd's all. `_low` is of the activations' dtype, weights may differ (f32 gradients).
struct Descs {
  Desc x, y, w, x_any, y_any, w_any, w_any_low;
  Dims stride, dilation, padding;
  dnnl::algorithm algorithm;

  Descs(const Tensor& tx, const Tensor& tw, const Tensor& ty, const ConvParams& p, dnnl::algorithm a)
      : algorithm(a) {
    auto type = type_of(tx.dtype()), w_type = type_of(tw.dtype());
    const Tag any = a == dnnl::algorithm::convolution_direct ? Tag::nhwc : Tag::any;
    const Dims x_dims{tx.dim(0), tx.dim(3), tx.dim(1), tx.dim(2)};
    const Dims y_dims{ty.dim(0), ty.dim(3), ty.dim(1), ty.dim(2)};
    x = Desc(x_dims, type, Tag::nhwc);
    y = Desc(y_dims, type, Tag::nhwc);
    x_any = Desc(x_dims, type, any);
    y_any = Desc(y_dims, type, any);
    Dims dims = p.groups == 1 ? Dims{tw.dim(0), tw.dim(1), tw.dim(2), tw.dim(3)}
                              : Dims{p.groups, tw.dim(0) / p.groups, tw.dim(1), tw.dim(2), tw.dim(3)};
    w = Desc(dims, w_type, p.groups == 1 ? Tag::oihw : Tag::goihw);
    w_any = Desc(dims, w_type, Tag::any);
    w_any_low = Desc(dims, type, Tag::any);
    stride = {p.stride, p.stride};
    dilation = {p.dilation - 1, p.dilation - 1};
    padding = {p.padding, p.padding};
  }
};

Key key_of(Kind kind, const Tensor& x, const Tensor& w, const ConvParams& p, bool winograd, bool bias = false,
           bool relu = false) {
  Key key(kind);
  for (int64_t d : x.shape()) key.add(d);
  for (int64_t d : w.shape()) key.add(d);
  key.add(p.stride, p.padding, p.dilation, p.groups, static_cast<int>(x.dtype()), winograd, bias, relu);
  return key;
}

// make(descriptions), with Winograd's algorithm if it is wished for and this machine has it.
Compiled compile(const Tensor& x, const Tensor& w, const Tensor& y, const ConvParams& p, bool winograd,
                 const std::function<Compiled(const Descs&)>& make) {
  if (winograd) {
    try {
      return make(Descs(x, w, y, p, dnnl::algorithm::convolution_winograd));
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw;
    }
  }
  return make(Descs(x, w, y, p, dnnl::algorithm::convolution_direct));
}

dnnl::convolution_forward::primitive_desc forward_desc(const Descs& d, const Desc& bias, bool relu) {
  return dnnl::convolution_forward::primitive_desc(
      {dnnl::prop_kind::forward_training, d.algorithm, d.x_any, d.w_any_low, bias, d.y_any, d.stride,
       d.dilation, d.padding, d.padding},
      attributes(relu), engine());
}

// Without AVX-512: gradients of weights. Of few channels the windows are short pieces,
// which oneDNN reads better.
bool is_packed(const Tensor& read, const ConvParams& p) {
  return !has_avx512() && p.groups == 1 && read.dim(3) >= 16;
}
// Other passes: oneDNN is as fast on smaller maps. The number of images does not count,
// so that it changes no bit.
bool is_packed(const Tensor& read, const ConvParams& p, const Tensor& result) {
  return is_packed(read, p) && result.dim(1) * result.dim(2) >= 4096 && result.dim(3) >= 64;
}
// Without AVX-512 oneDNN has no bf16: the factors are widened, the result is rounded once.
bool must_widen(const Tensor& x) { return x.dtype() == DType::kBF16 && !has_avx512(); }
Tensor widened(const Tensor& t) { return t.to(DType::kF32); }

void forward_cpu(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p, Activation act,
                 Tensor& y) {
  if (is_product(w.shape(), p)) return forward_as_product(x, w, bias, act, y);
  if (const auto kind = winograd_kind(y, w, p)) return cpu::winograd_forward(x, w, bias, *kind, act, y);
  if (is_packed(x, p, y)) return cpu::packed_conv_forward(x, w, bias, p, act, y);
  if (must_widen(x)) {
    Tensor wide = Tensor::empty(y.shape());
    forward_cpu(widened(x), widened(w), bias, p, act, wide);
    return y.copy_from(wide);
  }
  const bool relu = act == Activation::kRelu, winograd = may_be_winograd(x, w, p);
  auto op = compiled(key_of(kConvForward, x, w, p, winograd, bias.defined(), relu), [&] {
    return compile(x, w, y, p, winograd, [&](const Descs& d) {
      Desc db = bias.defined() ? Desc({w.dim(0)}, dnnl::memory::data_type::f32, Tag::a) : Desc();
      auto pd = forward_desc(d, db, relu);
      std::vector<Argument> arguments{
          {DNNL_ARG_SRC, d.x}, {DNNL_ARG_WEIGHTS, d.w}, {DNNL_ARG_DST, d.y, true}};
      if (bias.defined()) arguments.push_back({DNNL_ARG_BIAS, db});
      return Compiled(pd, dnnl::convolution_forward(pd), arguments);
    });
  });
  op->run({x.raw(), w.raw(), y.raw(), data_or_null<float>(bias)});
}

void backward_data_cpu(const Tensor& dy, const Tensor& w, const ConvParams& p, Tensor& dx) {
  if (is_product(w.shape(), p)) return backward_data_as_product(dy, w, dx);
  if (const auto kind = winograd_kind(dy, w, p)) return cpu::winograd_backward_data(dy, w, *kind, dx);
  if (p.stride == 1 && is_packed(dy, p, dx)) return cpu::packed_conv_backward_data(dy, w, p, dx);
  if (must_widen(dy)) {
    Tensor wide = Tensor::empty(dx.shape());
    backward_data_cpu(widened(dy), widened(w), p, wide);
    return dx.copy_from(wide);
  }
  const bool winograd = may_be_winograd(dx, w, p);
  auto op = compiled(key_of(kConvBackwardData, dx, w, p, winograd), [&] {
    return compile(dx, w, dy, p, winograd, [&](const Descs& d) {
      dnnl::convolution_backward_data::primitive_desc pd(
          {d.algorithm, d.x_any, d.w_any, d.y_any, d.stride, d.dilation, d.padding, d.padding}, attributes(),
          engine(), forward_desc(d, Desc(), false));
      return Compiled(pd, dnnl::convolution_backward_data(pd),
                      {{DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_WEIGHTS, d.w}, {DNNL_ARG_DIFF_SRC, d.x, true}});
    });
  });
  op->run({dy.raw(), w.raw(), dx.raw()});
}

void backward_weight_here(const Tensor& dy, const Tensor& x, const ConvParams& p, bool winograd, Tensor& dw) {
  auto op = compiled(key_of(kConvBackwardWeight, x, dw, p, winograd), [&] {
    return compile(x, dw, dy, p, winograd, [&](const Descs& d) {
      dnnl::convolution_backward_weights::primitive_desc pd(
          {d.algorithm, d.x_any, d.w_any, d.y_any, d.stride, d.dilation, d.padding, d.padding}, attributes(),
          engine(), forward_desc(d, Desc(), false));
      return Compiled(pd, dnnl::convolution_backward_weights(pd),
                      {{DNNL_ARG_SRC, d.x}, {DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_DIFF_WEIGHTS, d.w, true}});
    });
  });
  op->run({x.raw(), dy.raw(), dw.raw()});
}

void backward_weight_cpu(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw) {
  if (is_product(dw.shape(), p)) return backward_weight_as_product(dy, x, dw);
  if (p.groups == x.dim(3) && dw.dim(0) == x.dim(3))
    return dispatch_dtype<float, bf16>(x.dtype(), "conv2d",
                                       [&]<class T>() { cpu::depthwise_backward_weight<T>(dy, x, p, dw); });
  if (const auto kind = winograd_kind(dy, dw, p, 1600))
    return cpu::winograd_backward_weight(dy, x, *kind, dw);
  if (is_packed(x, p)) return cpu::packed_conv_backward_weight(dy, x, p, dw);
  if (must_widen(x)) return backward_weight_cpu(widened(dy), widened(x), p, dw);
  const bool winograd = may_be_winograd(x, dw, p);  // asked here, since the state is this thread's
  sum_over_samples(x.dim(0), dy.numel() / dy.dim(3), dw, [&](int64_t begin, int64_t end, Tensor& sum) {
    backward_weight_here(dy.slice(0, begin, end), x.slice(0, begin, end), p, winograd, sum);
  });
}

// oneDNN's weight gradient of a strided 1x1 convolution of few channels writes past the end of its scratch
// memory (uxlfoundation/oneDNN#6035): below 16 of them on machines with AVX-512, below 8 on those with AVX2.
bool takes_backward_weight(const Tensor& dy, const Tensor& x, const ConvParams& p, const Tensor& dw) {
  constexpr int64_t kFewChannels = 16;
  const bool overflows = dw.dim(2) == 1 && dw.dim(3) == 1 && p.stride > 1 && x.dim(3) < kFewChannels;
  return takes(dy, x, p, dw) && !overflows;
}

SACCADE_REGISTER_TUNED_KERNEL(conv2d_forward, Device::kCpu, &forward_cpu, &takes);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_data, Device::kCpu, &backward_data_cpu, &takes);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_weight, Device::kCpu, &backward_weight_cpu,
                              &takes_backward_weight);

}  // namespace
}  // namespace saccade::kernels
