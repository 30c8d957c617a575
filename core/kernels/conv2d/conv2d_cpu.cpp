// Convolutions: 1x1 ones of stride 1 are matrix products over the pixels, all others take the route chosen in
// core/kernels/matmul/routes_cpu.h. With oneDNN, activations stay [N, H, W, C], and the weights take the
// layout that the primitive requests.
#include "core/kernels/conv2d/conv2d.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/kernels/common/lane_vector.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/conv2d/conv2d_as_product.h"
#include "core/kernels/conv2d/packed_conv_cpu.h"
#include "core/kernels/conv2d/winograd_cpu.h"
#include "core/kernels/linear/linear_cpu.h"
#include "core/runtime/cpu/onednn.h"
#include "core/runtime/parallel.h"

namespace saccade::cpu {
namespace {

// The input of a strided 1x1 convolution as a separate map: x [N, H, W, C] at every stride-th row and column,
// [N, rows and columns of y, C].
Tensor gathered(const Tensor& x, const Tensor& y, int64_t stride) {
  const int64_t H = x.dim(1), W = x.dim(2), rows = y.dim(1), columns = y.dim(2);
  Tensor out = Tensor::empty({x.dim(0), rows, columns, x.dim(3)}, x.dtype());
  const size_t bytes = static_cast<size_t>(x.dim(3)) * size_of(x.dtype());
  const auto* from = static_cast<const char*>(x.raw());
  auto* to = static_cast<char*>(out.raw());
  parallel_for(x.dim(0) * rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const char* row = from + static_cast<size_t>((r / rows * H + r % rows * stride) * W) * bytes;
      for (int64_t c = 0; c < columns; ++c)
        std::memcpy(to + static_cast<size_t>(r * columns + c) * bytes,
                    row + static_cast<size_t>(c * stride) * bytes, bytes);
    }
  });
  return out;
}

// dx [N, H, W, C]: the gradient of the gathered pixels, and zeros between them.
void spread(const Tensor& gradient, int64_t stride, Tensor& dx) {
  const int64_t H = dx.dim(1), W = dx.dim(2), rows = gradient.dim(1), columns = gradient.dim(2);
  const size_t bytes = static_cast<size_t>(dx.dim(3)) * size_of(dx.dtype());
  const auto* from = static_cast<const char*>(gradient.raw());
  auto* to = static_cast<char*>(dx.raw());
  parallel_for(dx.dim(0) * H, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      char* row = to + static_cast<size_t>(r * W) * bytes;
      const int64_t read = r % H / stride;
      if (r % H % stride != 0 || read >= rows) {
        std::memset(row, 0, static_cast<size_t>(W) * bytes);
        continue;
      }
      for (int64_t c = 0; c < W; ++c) {
        char* place = row + static_cast<size_t>(c) * bytes;
        const int64_t column = c / stride;
        if (c % stride == 0 && column < columns)
          std::memcpy(place, from + static_cast<size_t>((r / H * rows + read) * columns + column) * bytes,
                      bytes);
        else
          std::memset(place, 0, bytes);
      }
    }
  });
}

// The weight gradient of a depthwise convolution, sixteen channels at a time. oneDNN 2 is slow here: in bf16
// its gradient for a 5 x 5 kernel takes longer than the rest of a deformable attention layer. dw [C, 1, R, S]
// from dy [N, OH, OW, C] and x [N, H, W, C]. Each channel's sums have one owner and one order: first along a
// row of the output, then over rows and images.
template <class T>
void depthwise_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p, Tensor& dw) {
  int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), C = x.dim(3), OH = dy.dim(1), OW = dy.dim(2);
  int64_t R = dw.dim(2), S = dw.dim(3);
  int64_t blocks = ceil_div(C, kLanes);
  const T *from_x = x.data<T>(), *from_dy = dy.data<T>();
  float* out = dw.data<float>();
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    LaneVector<float> sums(static_cast<size_t>(R * S * kLanes));
    for (int64_t block = begin; block < end; ++block) {
      int64_t c0 = block * kLanes, count = std::min<int64_t>(kLanes, C - c0);
      auto at = [count](const T* from) { return load_some(from, count); };
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t row = 0; row < N * OH; ++row) {
        const T* g = from_dy + row * OW * C + c0;
        for (int64_t r = 0; r < R; ++r) {
          int64_t y = row % OH * p.stride - p.padding + r * p.dilation;
          if (y < 0 || y >= H) continue;
          const T* line = from_x + (row / OH * H + y) * W * C + c0;
          for (int64_t s = 0; s < S; ++s) {
            int64_t shift = s * p.dilation - p.padding;  // the input's column minus stride * the output's
            int64_t first = shift < 0 ? (-shift + p.stride - 1) / p.stride : 0;
            int64_t last = W > shift ? std::min(OW, (W - shift - 1) / p.stride + 1) : 0;
            Floats sum{};
            for (int64_t i = first; i < last; ++i)
              sum += at(g + i * C) * at(line + (i * p.stride + shift) * C);
            float* total = sums.data() + (r * S + s) * kLanes;
            store(total, load(total) + sum);
          }
        }
      }
      for (int64_t c = 0; c < count; ++c)
        for (int64_t tap = 0; tap < R * S; ++tap)
          out[(c0 + c) * R * S + tap] = sums[static_cast<size_t>(tap * kLanes + c)];
    }
  });
}

}  // namespace
}  // namespace saccade::cpu

namespace saccade::kernels {
namespace {

using namespace onednn;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using cpu::ConvRoute;
using cpu::Pass;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// Descriptors of one convolution: the caller's layouts, and the weights' layout for a primitive (`w_any`),
// which chooses it. `_low` has the activations' dtype; weights may differ (f32 gradients).
struct Descs {
  Desc x, y, w, w_any, w_any_low;
  Dims stride, dilation, padding;

  Descs(const Tensor& tx, const Tensor& tw, const Tensor& ty, const ConvParams& p) {
    auto type = type_of(tx.dtype()), w_type = type_of(tw.dtype());
    x = Desc(Dims{tx.dim(0), tx.dim(3), tx.dim(1), tx.dim(2)}, type, Tag::nhwc);
    y = Desc(Dims{ty.dim(0), ty.dim(3), ty.dim(1), ty.dim(2)}, type, Tag::nhwc);
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

Key key_of(Kind kind, const Tensor& x, const Tensor& w, const ConvParams& p, bool bias = false,
           bool relu = false, float shift = 0) {
  Key key(kind);
  for (int64_t d : x.shape()) key.add(d);
  for (int64_t d : w.shape()) key.add(d);
  key.add(p.stride, p.padding, p.dilation, p.groups, static_cast<int>(x.dtype()), bias, relu,
          std::bit_cast<int32_t>(shift));
  return key;
}

dnnl::convolution_forward::primitive_desc forward_desc(const Descs& d, const Desc& bias = {},
                                                       bool relu = false, float shift = 0) {
  return described<dnnl::convolution_forward>(attributes(relu, shift), dnnl::prop_kind::forward_training,
                                              kDirect, d.x, d.w_any_low, bias, d.y, d.stride, d.dilation,
                                              d.padding, d.padding);
}

// The factors are widened, and the result is rounded once.
bool must_widen(const Tensor& x) { return x.dtype() == DType::kBF16 && cpu::widens_bf16(); }
Tensor widened(const Tensor& t) { return t.to(DType::kF32); }

// y = act(convolution + bias) + shift
void activated_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p,
                       Activation act, float shift, Tensor& y) {
  const auto as_product = [&](const Tensor& read) {
    Tensor out = pixels(y);
    cpu::linear_forward(pixels(read), matrix(w), bias, act, shift, out);
  };
  if (is_product(w.shape(), p)) return as_product(x);
  const ConvRoute route = cpu::conv_route(Pass::kForward, x, w, y, p);
  if (const auto kind = cpu::winograd_kind(route))
    return cpu::winograd_forward(x, w, bias, *kind, act, y, {}, shift);
  if (route == ConvRoute::kPacked) return cpu::packed_conv_forward(x, w, bias, p, act, y, shift);
  if (route == ConvRoute::kGathered) return as_product(cpu::gathered(x, y, p.stride));
  if (must_widen(x)) {
    Tensor wide = Tensor::empty(y.shape());
    activated_forward(widened(x), widened(w), bias, p, act, shift, wide);
    return y.copy_from(wide);
  }
  const bool relu = act == Activation::kRelu;
  auto op = compiled(key_of(kConvForward, x, w, p, bias.defined(), relu, shift), [&] {
    const Descs d(x, w, y, p);
    Desc db = bias.defined() ? Desc({w.dim(0)}, dnnl::memory::data_type::f32, Tag::a) : Desc();
    auto pd = forward_desc(d, db, relu, shift);
    std::vector<Argument> arguments{{DNNL_ARG_SRC, d.x}, {DNNL_ARG_WEIGHTS, d.w}, {DNNL_ARG_DST, d.y, true}};
    if (bias.defined()) arguments.push_back({DNNL_ARG_BIAS, db});
    return Compiled(pd, dnnl::convolution_forward(pd), arguments);
  });
  op->run({x.raw(), w.raw(), y.raw(), data_or_null<float>(bias)}, &w);
}

void forward_cpu(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p, Activation act,
                 Tensor& y) {
  activated_forward(x, w, bias, p, act, 0, y);
}

void relu_shift_cpu(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& shift,
                    const ConvParams& p, Tensor& y) {
  activated_forward(x, w, bias, p, Activation::kRelu, *shift.data<float>(), y);
}

void backward_data_cpu(const Tensor& dy, const Tensor& w, const ConvParams& p, Tensor& dx) {
  if (is_product(w.shape(), p)) return backward_data_as_product(dy, w, dx);
  const ConvRoute route = cpu::conv_route(Pass::kBackwardData, dx, w, dy, p);
  if (const auto kind = cpu::winograd_kind(route)) return cpu::winograd_backward_data(dy, w, *kind, dx);
  if (route == ConvRoute::kPacked) return cpu::packed_conv_backward_data(dy, w, p, dx);
  if (route == ConvRoute::kGathered) {
    Tensor read = Tensor::empty({dy.dim(0), dy.dim(1), dy.dim(2), dx.dim(3)}, dx.dtype());
    backward_data_as_product(dy, w, read);
    return cpu::spread(read, p.stride, dx);
  }
  if (must_widen(dy)) {
    Tensor wide = Tensor::empty(dx.shape());
    backward_data_cpu(widened(dy), widened(w), p, wide);
    return dx.copy_from(wide);
  }
  auto op = compiled(key_of(kConvBackwardData, dx, w, p), [&] {
    const Descs d(dx, w, dy, p);
    const auto pd = described_gradient<dnnl::convolution_backward_data>(
        forward_desc(d), kDirect, d.x, d.w_any, d.y, d.stride, d.dilation, d.padding, d.padding);
    return Compiled(pd, dnnl::convolution_backward_data(pd),
                    {{DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_WEIGHTS, d.w}, {DNNL_ARG_DIFF_SRC, d.x, true}});
  });
  op->run({dy.raw(), w.raw(), dx.raw()});
}

void backward_weight_here(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw) {
  auto op = compiled(key_of(kConvBackwardWeight, x, dw, p), [&] {
    const Descs d(x, dw, dy, p);
    const auto pd = described_gradient<dnnl::convolution_backward_weights>(
        forward_desc(d), kDirect, d.x, d.w_any, d.y, d.stride, d.dilation, d.padding, d.padding);
    return Compiled(pd, dnnl::convolution_backward_weights(pd),
                    {{DNNL_ARG_SRC, d.x}, {DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_DIFF_WEIGHTS, d.w, true}});
  });
  op->run({x.raw(), dy.raw(), dw.raw()});
}

void backward_weight_cpu(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw) {
  if (is_product(dw.shape(), p)) return backward_weight_as_product(dy, x, dw);
  if (p.groups == x.dim(3) && dw.dim(0) == x.dim(3))
    return dispatch_dtype<float, bf16>(x.dtype(), "conv2d",
                                       [&]<class T>() { cpu::depthwise_backward_weight<T>(dy, x, p, dw); });
  const ConvRoute route = cpu::conv_route(Pass::kBackwardWeight, x, dw, dy, p);
  if (const auto kind = cpu::winograd_kind(route)) return cpu::winograd_backward_weight(dy, x, *kind, dw);
  if (route == ConvRoute::kPacked) return cpu::packed_conv_backward_weight(dy, x, p, dw);
  if (route == ConvRoute::kGathered)
    return backward_weight_as_product(dy, cpu::gathered(x, dy, p.stride), dw);
  if (must_widen(x)) return backward_weight_cpu(widened(dy), widened(x), p, dw);
  sum_over_samples(x.dim(0), dy.numel() / dy.dim(3), dw, [&](int64_t begin, int64_t end, Tensor& sum) {
    backward_weight_here(dy.slice(0, begin, end), x.slice(0, begin, end), p, sum);
  });
}

// oneDNN's weight gradient of a strided 1x1 convolution with few channels writes past the end of its scratch
// memory (uxlfoundation/oneDNN#6035): below 16 channels on machines with AVX-512, below 8 with AVX2.
bool takes_backward_weight(const Tensor& dy, const Tensor& x, const ConvParams& p, const Tensor& dw) {
  constexpr int64_t kFewChannels = 16;
  const bool overflows = dw.dim(2) == 1 && dw.dim(3) == 1 && p.stride > 1 && x.dim(3) < kFewChannels;
  return takes_full_f32_or_bf16(dy, x, p, dw) && !overflows;
}

SACCADE_REGISTER_TUNED_KERNEL(conv2d_forward, Device::kCpu, &forward_cpu, &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_relu_shift, Device::kCpu, &relu_shift_cpu, &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_data, Device::kCpu, &backward_data_cpu,
                              &takes_full_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(conv2d_backward_weight, Device::kCpu, &backward_weight_cpu,
                              &takes_backward_weight);

}  // namespace
}  // namespace saccade::kernels
