// Normalises four pixels per thread, which are 12 bytes in and three packs of four values out; the rest at
// the end is processed value by value.
#include "core/kernels/normalize_image/normalize_image.h"

#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kPixels = 4;

template <class T>
__global__ void __launch_bounds__(kMapThreads)
    normalize_pixels(const uint8_t* x, const int64_t* sizes, ImageNormalization norm, T* y, int pixels,
                     int height, int width) {
  const int i = static_cast<int>(blockIdx.x) * kMapThreads + static_cast<int>(threadIdx.x);
  const int left = pixels - i * kPixels;
  if (left <= 0) return;
  bool padding[kPixels] = {};
  if (sizes) {
#pragma unroll
    for (int k = 0; k < kPixels; ++k) {
      if (k >= left) break;  // its image does not exist
      const int row = (i * kPixels + k) / width, column = (i * kPixels + k) % width;
      const int64_t* size = sizes + row / height * 2;
      padding[k] = row % height >= size[0] || column >= size[1];
    }
  }
  const int64_t first = static_cast<int64_t>(i) * (3 * kPixels);
  if (left < kPixels) {
#pragma unroll  // keeps the arrays in registers
    for (int e = 0; e < 3 * (kPixels - 1); ++e) {
      if (e >= 3 * left) break;
      float v = (static_cast<float>(x[first + e]) / 255.0f - norm.mean[e % 3]) / norm.std[e % 3];
      y[first + e] = static_cast<T>(padding[e / 3] ? 0.0f : v);
    }
    return;
  }
#pragma unroll
  for (int part = 0; part < 3; ++part) {
    auto bytes = load_pack<4>(x + first + part * 4);
    Pack<T, 4> out;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = (part * 4 + j) % 3;
      float v = (static_cast<float>(bytes.x[j]) / 255.0f - norm.mean[c]) / norm.std[c];
      out.x[j] = static_cast<T>(padding[(part * 4 + j) / 3] ? 0.0f : v);
    }
    store_pack<4>(y + first + part * 4, out);
  }
}

void normalize_image_cuda(const Tensor& images, const Tensor& sizes, const ImageNormalization& norm,
                          Tensor& y) {
  const auto pixels = static_cast<int>(images.numel() / 3);
  dispatch_dtype<float, bf16>(y.dtype(), "normalize_image", [&]<class T>() {
    launch("normalize_pixels", &normalize_pixels<T>,
           {ceil_div(ceil_div(pixels, kPixels), kMapThreads), kMapThreads}, images.data<uint8_t>(),
           data_or_null<int64_t>(sizes), norm, y.data<T>(), pixels, static_cast<int>(images.dim(1)),
           static_cast<int>(images.dim(2)));
  });
}

// Returns whether the arguments are valid (the generic kernel names wrong ones) and packs of four pixels fit.
bool supported(const Tensor& images, const Tensor& sizes, const ImageNormalization&, const Tensor& y) {
  auto packs = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.raw()) % (4 * size_of(t.dtype())) == 0;
  };
  const bool padded = sizes.defined();
  return images.shape() == y.shape() && images.rank() == 4 && images.dim(3) == 3 &&
         (!padded || (sizes.shape() == Shape({images.dim(0), 2}) && sizes.dtype() == DType::kI64 &&
                      sizes.is_contiguous())) &&
         images.dtype() == DType::kU8 && takes_f32_or_bf16(y) && images.is_contiguous() &&
         y.is_contiguous() && images.numel() < INT32_MAX && packs(images) && packs(y);
}

SACCADE_REGISTER_TUNED_KERNEL(normalize_image, Device::kCuda, &normalize_image_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
