#include "core/kernels/conv2d/packed_conv_cpu.h"

#include "core/kernels/matmul/packed_product_cpu.h"

namespace saccade::cpu {
namespace {

// The matrix [N * OH * OW, R * S * C] of the windows of the images: zeros in the padding.
template <class T>
struct Windows {
  const T* image;  // [N, H, W, C]
  int64_t H, W, C, OH, OW, R, S;
  // The window's row r of output row o is input row o * stride + origin + r * step; the same for columns.
  int64_t stride, origin, step;

  const void* place() const { return image; }

  static void copy(const T* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += kLanes) store_some(to + i, load_some(from + i, count - i), count - i);
  }
  // Copies columns [k, k + depth) of a row. They follow the image's row as long as its pixels are adjacent.
  void row(int64_t index, int64_t k, int64_t depth, float* out) const {
    const int64_t left = index % OW * stride + origin, top = index / OW % OH * stride + origin;
    const T* of_image = image + index / OW / OH * H * W * C;
    const int64_t taps = step == 1 ? S : 1, run = taps * C;  // copied at a time
    for (int64_t at = k; at < k + depth;) {
      const int64_t from = at % run, count = std::min(run - from, k + depth - at);
      const int64_t tap = at / run * taps, h = top + tap / S * step, v = left + tap % S * step;
      float* to = out + at - k;
      at += count;
      // The part of the run that is inside the image.
      const bool outside = h < 0 || h >= H;
      const int64_t begin = outside ? count : std::clamp(-v * C - from, int64_t{0}, count);
      const int64_t end = outside ? count : std::clamp((W - v) * C - from, begin, count);
      std::fill(to, to + begin, 0.0f);
      if (begin < end) copy(of_image + ((h * W + v) * C + from + begin), end - begin, to + begin);
      std::fill(to + end, to + count, 0.0f);
    }
  }
  LeftRows rows(int64_t first, int64_t count, int64_t k, int64_t depth, float* out) const {
    for (int64_t i = 0; i < count; ++i) row(first + i, k, depth, out + i * kPackDepth);
    return {out, kPackDepth, 1, kPackDepth * kTileRows};
  }
  void panels(int64_t k, int64_t depth, int64_t first, int64_t width, float* out) const {
    alignas(64) float line[kPackColumns];
    std::fill(line + width, line + kPackColumns, 0.0f);
    for (int64_t i = 0; i < depth; ++i) {
      row(k + i, first, width, line);
      for (int64_t j = 0; j < width; j += kPanel)
        for (int64_t lane = 0; lane < kPanel; lane += kLanes)
          store(out + j * depth + i * kPanel + lane, load(line + j + lane));
    }
  }
};

// The windows by which a convolution reads an image or, with stride 1, those rotated by 180 degrees by which
// its gradient reads the result's gradient.
template <class T>
Windows<T> windows_of(const Tensor& image, const Tensor& result, int64_t R, int64_t S,
                      const kernels::ConvParams& p, bool rotated) {
  const int64_t origin = rotated ? p.padding : -p.padding, step = rotated ? -p.dilation : p.dilation;
  return {image.data<T>(), image.dim(1), image.dim(2), image.dim(3), result.dim(1), result.dim(2), R, S,
          p.stride,        origin,       step};
}

// result = act(the windows of image times taps [R, S, channels of the image, channels of the result] + bias)
// + shift
void multiply_windows(const Tensor& image, const Tensor& taps, const kernels::ConvParams& p, bool rotated,
                      Tensor& result, const Tensor& bias = {}, Activation act = Activation::kNone,
                      float shift = 0) {
  const int64_t n = result.dim(3);
  dispatch_dtype<float, bf16>(image.dtype(), "conv2d", [&]<class T>() {
    run_packed(1, [&](int64_t) {
      return PackedProduct<Windows<T>, PackedMatrix<T>, T>{
          windows_of<T>(image, result, taps.dim(0), taps.dim(1), p, rotated),
          {taps.data<T>(), n, 1},
          result.data<T>(),
          result.numel() / n,
          n,
          taps.numel() / n,
          data_or_null<float>(bias),
          act == Activation::kRelu,
          shift};
    });
  });
}

}  // namespace

void packed_conv_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const kernels::ConvParams& p,
                         Activation act, Tensor& y, float shift) {
  multiply_windows(x, w.permute({2, 3, 1, 0}).contiguous(), p, false, y, bias, act, shift);
}

void packed_conv_backward_data(const Tensor& dy, const Tensor& w, const kernels::ConvParams& p, Tensor& dx) {
  multiply_windows(dy, w.permute({2, 3, 0, 1}).contiguous(), p, true, dx);
}

void packed_conv_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p,
                                 Tensor& dw) {
  const int64_t o = dw.dim(0);
  Tensor taps = Tensor::empty({o, dw.dim(2), dw.dim(3), dw.dim(1)});  // [O, R, S, C]
  dispatch_dtype<float, bf16>(x.dtype(), "conv2d", [&]<class T>() {
    run_packed(1, [&](int64_t) {
      return PackedProduct<PackedMatrix<T>, Windows<T>, float>{
          {dy.data<T>(), 1, o}, windows_of<T>(x, dy, dw.dim(2), dw.dim(3), p, false),
          taps.data<float>(),   o,
          taps.numel() / o,     dy.numel() / o};
    });
  });
  dw.copy_from(taps.permute({0, 3, 1, 2}));
}

}  // namespace saccade::cpu
