// Images to numbers: four pixels per thread, which are 12 bytes in and three packs of four values out.
#include "core/kernels/normalize_image/normalize_image.h"

#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kPixels = 4;

template <class T>
__global__ void __launch_bounds__(kMapThreads)
    normalize_pixels(const uint8_t* x, const bool* mask, ImageNormalization norm, T* y, int64_t groups) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x;
  if (i >= groups) return;
  auto padding = load_pack<kPixels>(mask + i * kPixels);
#pragma unroll
  for (int part = 0; part < 3; ++part) {
    auto bytes = load_pack<4>(x + (i * 3 + part) * 4);
    Pack<T, 4> out;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = (part * 4 + j) % 3;
      float v = (static_cast<float>(bytes.x[j]) / 255.0f - norm.mean[c]) / norm.std[c];
      out.x[j] = static_cast<T>(padding.x[(part * 4 + j) / 3] ? 0.0f : v);
    }
    store_pack<4>(y + (i * 3 + part) * 4, out);
  }
}

void normalize_image_cuda(const Tensor& images, const Tensor& mask, const ImageNormalization& norm,
                          Tensor& y) {
  int64_t groups = mask.numel() / kPixels;
  dispatch_dtype<float, bf16>(y.dtype(), "normalize_image", [&]<class T>() {
    launch("normalize_pixels", &normalize_pixels<T>, grid_of(groups, kMapThreads), dim3(kMapThreads), 0,
           images.data<uint8_t>(), mask.data<bool>(), norm, y.data<T>(), groups);
  });
}

// Right arguments (the generic kernel names wrong ones) whose packs of four pixels can be moved.
bool supported(const Tensor& images, const Tensor& mask, const ImageNormalization&, const Tensor& y) {
  auto packs = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.raw()) % (4 * size_of(t.dtype())) == 0;
  };
  return images.shape() == y.shape() && images.rank() == 4 && images.dim(3) == 3 &&
         mask.numel() * 3 == images.numel() && images.dtype() == DType::kU8 && mask.dtype() == DType::kBool &&
         takes_f32_or_bf16(y) && images.is_contiguous() && mask.is_contiguous() && y.is_contiguous() &&
         mask.numel() % kPixels == 0 && every_tensor(packs, images, mask, y);
}

SACCADE_REGISTER_TUNED_KERNEL(normalize_image, Device::kCuda, &normalize_image_cuda, &supported);

}  // namespace
}  // namespace saccade::kernels
