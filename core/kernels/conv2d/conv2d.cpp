#include "core/kernels/conv2d/conv2d.h"

#include "core/kernels/channel_affine/channel_affine.h"
#include "core/kernels/elementwise/elementwise.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

constexpr int64_t kChannels = 32;

// Sizes and index arithmetic of one convolution.
struct Geometry {
  int64_t N, H, W, C, O, R, S, OH, OW, stride, padding, dilation, groups;

  Geometry(const Tensor& x, const Shape& w, const Tensor& y, const ConvParams& p)
      : N(x.dim(0)),
        H(x.dim(1)),
        W(x.dim(2)),
        C(x.dim(3)),
        O(w[0]),
        R(w[2]),
        S(w[3]),
        OH(y.dim(1)),
        OW(y.dim(2)),
        stride(p.stride),
        padding(p.padding),
        dilation(p.dilation),
        groups(p.groups) {}
  SACCADE_HD int64_t group_in() const { return C / groups; }
  SACCADE_HD int64_t group_out() const { return O / groups; }
  // The input row that output row `o` reads at window row `r`; outside [0, H) in the padding.
  SACCADE_HD int64_t input(int64_t o, int64_t r) const { return o * stride - padding + r * dilation; }
  // The output row whose window row `r` is at input row `h`, or -1.
  SACCADE_HD int64_t output(int64_t h, int64_t r, int64_t limit) const {
    int64_t t = h + padding - r * dilation;
    if (t < 0 || t % stride != 0) return -1;
    return t / stride < limit ? t / stride : -1;
  }
};

SACCADE_HD int64_t tiles_of(int64_t n) { return ceil_div(n, kChannels); }

// index = (n, oh, ow, group, tile of the group's outputs)
template <class T>
struct ConvForward {
  using A = acc_t<T>;
  Geometry g;
  const T *x, *w;  // w [R, S, C / groups, O]
  const A* bias;
  Activation act;
  T* y;

  SACCADE_HD void operator()(int64_t i) const {
    int64_t tiles = tiles_of(g.group_out());
    int64_t tile = i % tiles, group = i / tiles % g.groups, pixel = i / tiles / g.groups;
    int64_t ow = pixel % g.OW, oh = pixel / g.OW % g.OH, n = pixel / g.OW / g.OH;
    int64_t width = g.group_out() - tile * kChannels;
    if (width > kChannels) width = kChannels;
    int64_t first = group * g.group_out() + tile * kChannels;
    A sum[kChannels] = {};
    for (int64_t r = 0; r < g.R; ++r) {
      int64_t h = g.input(oh, r);
      if (h < 0 || h >= g.H) continue;
      for (int64_t s = 0; s < g.S; ++s) {
        int64_t v = g.input(ow, s);
        if (v < 0 || v >= g.W) continue;
        const T* px = x + ((n * g.H + h) * g.W + v) * g.C + group * g.group_in();
        const T* pw = w + (r * g.S + s) * g.group_in() * g.O + first;
        for (int64_t c = 0; c < g.group_in(); ++c) {
          A a = static_cast<A>(px[c]);
          for (int64_t o = 0; o < width; ++o) sum[o] += a * static_cast<A>(pw[c * g.O + o]);
        }
      }
    }
    T* py = y + pixel * g.O + first;
    for (int64_t o = 0; o < width; ++o) {
      A v = sum[o];
      if (bias) v += bias[first + o];
      if (act == Activation::kRelu && v < A(0)) v = A(0);
      py[o] = static_cast<T>(v);
    }
  }
};

// index = (n, h, w, group, tile of the group's inputs): each input pixel gathers from the outputs that read
// it
template <class T>
struct ConvBackwardData {
  using A = acc_t<T>;
  Geometry g;
  const T *dy, *w;  // w [R, S, O, C / groups]
  T* dx;

  SACCADE_HD void operator()(int64_t i) const {
    int64_t tiles = tiles_of(g.group_in());
    int64_t tile = i % tiles, group = i / tiles % g.groups, pixel = i / tiles / g.groups;
    int64_t v = pixel % g.W, h = pixel / g.W % g.H, n = pixel / g.W / g.H;
    int64_t width = g.group_in() - tile * kChannels;
    if (width > kChannels) width = kChannels;
    A sum[kChannels] = {};
    for (int64_t r = 0; r < g.R; ++r) {
      int64_t oh = g.output(h, r, g.OH);
      if (oh < 0) continue;
      for (int64_t s = 0; s < g.S; ++s) {
        int64_t ow = g.output(v, s, g.OW);
        if (ow < 0) continue;
        const T* pd = dy + ((n * g.OH + oh) * g.OW + ow) * g.O + group * g.group_out();
        const T* pw = w + ((r * g.S + s) * g.O + group * g.group_out()) * g.group_in() + tile * kChannels;
        for (int64_t o = 0; o < g.group_out(); ++o) {
          A d = static_cast<A>(pd[o]);
          for (int64_t c = 0; c < width; ++c) sum[c] += d * static_cast<A>(pw[o * g.group_in() + c]);
        }
      }
    }
    T* px = dx + pixel * g.C + group * g.group_in() + tile * kChannels;
    for (int64_t c = 0; c < width; ++c) px[c] = static_cast<T>(sum[c]);
  }
};

// index = (r, s, input channel of a group, group, tile of the group's outputs)
template <class T>
struct ConvBackwardWeight {
  using A = acc_t<T>;
  Geometry g;
  const T *dy, *x;
  A* dw;  // [R, S, C / groups, O]

  SACCADE_HD void operator()(int64_t i) const {
    int64_t tiles = tiles_of(g.group_out());
    int64_t tile = i % tiles, group = i / tiles % g.groups, rest = i / tiles / g.groups;
    int64_t c = rest % g.group_in(), s = rest / g.group_in() % g.S, r = rest / g.group_in() / g.S;
    int64_t width = g.group_out() - tile * kChannels;
    if (width > kChannels) width = kChannels;
    int64_t first = group * g.group_out() + tile * kChannels;
    A sum[kChannels] = {};
    for (int64_t n = 0; n < g.N; ++n) {
      for (int64_t oh = 0; oh < g.OH; ++oh) {
        int64_t h = g.input(oh, r);
        if (h < 0 || h >= g.H) continue;
        for (int64_t ow = 0; ow < g.OW; ++ow) {
          int64_t v = g.input(ow, s);
          if (v < 0 || v >= g.W) continue;
          A a = static_cast<A>(x[((n * g.H + h) * g.W + v) * g.C + group * g.group_in() + c]);
          const T* pd = dy + ((n * g.OH + oh) * g.OW + ow) * g.O + first;
          for (int64_t o = 0; o < width; ++o) sum[o] += a * static_cast<A>(pd[o]);
        }
      }
    }
    A* out = dw + rest * g.O + first;
    for (int64_t o = 0; o < width; ++o) out[o] = sum[o];
  }
};

void forward_generic(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvParams& p,
                     Activation act, Tensor& y) {
  dispatch_float(x.dtype(), "conv2d", [&]<class T>() {
    Geometry g(x, w.shape(), y, p);
    Tensor packed = w.permute({2, 3, 1, 0}).contiguous();
    ConvForward<T> f{g, x.data<T>(), packed.data<T>(), data_or_null<acc_t<T>>(bias), act, y.data<T>()};
    for_each(g.N * g.OH * g.OW * g.groups * tiles_of(g.group_out()), f, g.R * g.S * g.group_in() * kChannels);
  });
}

// Also used on the CPU, where no library fuses the residual.
void add_relu_generic(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual,
                      const ConvParams& p, Tensor& y) {
  conv2d_forward(x, w, bias, p, Activation::kNone, y);
  binary(BinaryOp::kAddRelu, y, residual, y);
}

void relu_shift_generic(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& shift,
                        const ConvParams& p, Tensor& y) {
  conv2d_forward(x, w, bias, p, Activation::kRelu, y);
  const int64_t channels = y.dim(3);
  Tensor rows = y.reshape({y.numel() / channels, channels});
  channel_affine_forward(rows, Tensor::full({channels}, 1, shift.dtype(), y.device()),
                         shift.expand({channels}).contiguous(), Activation::kNone, rows);
}

void backward_data_generic(const Tensor& dy, const Tensor& w, const ConvParams& p, Tensor& dx) {
  dispatch_float(dy.dtype(), "conv2d", [&]<class T>() {
    Geometry g(dx, w.shape(), dy, p);
    Tensor packed = w.permute({2, 3, 0, 1}).contiguous();
    ConvBackwardData<T> f{g, dy.data<T>(), packed.data<T>(), dx.data<T>()};
    for_each(g.N * g.H * g.W * g.groups * tiles_of(g.group_in()), f, g.R * g.S * g.group_out() * kChannels);
  });
}

void backward_weight_generic(const Tensor& dy, const Tensor& x, const ConvParams& p, Tensor& dw) {
  dispatch_float(dy.dtype(), "conv2d", [&]<class T>() {
    Geometry g(x, dw.shape(), dy, p);
    Tensor packed = Tensor::empty({g.R, g.S, g.group_in(), g.O}, dw.dtype(), dw.device());
    ConvBackwardWeight<T> f{g, dy.data<T>(), x.data<T>(), packed.data<acc_t<T>>()};
    for_each(g.R * g.S * g.C * tiles_of(g.group_out()), f, g.N * g.OH * g.OW * kChannels);
    dw.copy_from(packed.permute({3, 2, 0, 1}));
  });
}

SACCADE_REGISTER_KERNEL(conv2d_forward, &forward_generic);
SACCADE_REGISTER_KERNEL(conv2d_add_relu, &add_relu_generic);
SACCADE_REGISTER_KERNEL(conv2d_relu_shift, &relu_shift_generic);
SACCADE_REGISTER_KERNEL(conv2d_backward_data, &backward_data_generic);
SACCADE_REGISTER_KERNEL(conv2d_backward_weight, &backward_weight_generic);

}  // namespace
}  // namespace saccade::kernels
