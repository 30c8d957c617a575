#include "core/kernels/normalize_image/normalize_image.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

template <class T>
struct NormalizePixel {
  const uint8_t* x;
  const bool* mask;
  float mean[3], std[3];
  T* y;
  SACCADE_HD void operator()(int64_t i) const {
    for (int c = 0; c < 3; ++c) {
      float v = (static_cast<float>(x[i * 3 + c]) / 255.0f - mean[c]) / std[c];
      y[i * 3 + c] = static_cast<T>(mask[i] ? 0.0f : v);
    }
  }
};

void normalize_image_generic(const Tensor& images, const Tensor& mask, const ImageNormalization& norm,
                             Tensor& y) {
  SACCADE_CHECK(images.rank() == 4 && images.dim(3) == 3 && images.dtype() == DType::kU8,
                "[normalize_image] images {} {}, expected u8 [N, H, W, 3]", name_of(images.dtype()),
                images.shape().to_string());
  SACCADE_CHECK(
      mask.dtype() == DType::kBool && mask.shape() == Shape({images.dim(0), images.dim(1), images.dim(2)}),
      "[normalize_image] mask {} {} for images {}, expected bool [N, H, W]", name_of(mask.dtype()),
      mask.shape().to_string(), images.shape().to_string());
  SACCADE_CHECK(y.shape() == images.shape(), "[normalize_image] output {}, expected {}",
                y.shape().to_string(), images.shape().to_string());
  SACCADE_CHECK(images.is_contiguous() && mask.is_contiguous() && y.is_contiguous(),
                "[normalize_image] needs contiguous tensors");
  dispatch_float(y.dtype(), "normalize_image", [&]<class T>() {
    NormalizePixel<T> f{images.data<uint8_t>(),
                        mask.data<bool>(),
                        {norm.mean[0], norm.mean[1], norm.mean[2]},
                        {norm.std[0], norm.std[1], norm.std[2]},
                        y.data<T>()};
    for_each(mask.numel(), f, 6);
  });
}

SACCADE_REGISTER_KERNEL(normalize_image, &normalize_image_generic);

}  // namespace
}  // namespace saccade::kernels
