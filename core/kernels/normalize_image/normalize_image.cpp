#include "core/kernels/normalize_image/normalize_image.h"

#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// Returns the number of valid pixels in a row.
struct RowWidth {
  const int64_t* sizes;
  int64_t height, width;
  SACCADE_HD int64_t operator()(int64_t row) const {
    if (!sizes) return width;
    const int64_t* size = sizes + row / height * 2;
    return row % height < size[0] ? size[1] : 0;
  }
};

template <class T>
struct NormalizeRow {
  const uint8_t* x;
  RowWidth valid;
  float mean[3], std[3];
  T* y;
  SACCADE_HD void operator()(int64_t row) const {
    const uint8_t* p = x + row * valid.width * 3;
    T* q = y + row * valid.width * 3;
    const int64_t used = valid(row);
#pragma GCC ivdep
    for (int64_t i = 0; i < used; ++i)
      for (int c = 0; c < 3; ++c)
        q[i * 3 + c] = static_cast<T>((static_cast<float>(p[i * 3 + c]) / 255.0f - mean[c]) / std[c]);
    for (int64_t i = used * 3; i < valid.width * 3; ++i) q[i] = static_cast<T>(0.0f);
  }
};

void normalize_image_generic(const Tensor& images, const Tensor& sizes, const ImageNormalization& norm,
                             Tensor& y) {
  SACCADE_CHECK(images.rank() == 4 && images.dim(3) == 3 && images.dtype() == DType::kU8,
                "[normalize_image] images {} {}, expected u8 [N, H, W, 3]", images.dtype(), images.shape());
  SACCADE_CHECK(
      !sizes.defined() || (sizes.dtype() == DType::kI64 && sizes.shape() == Shape({images.dim(0), 2})),
      "[normalize_image] sizes {} {} for images {}, expected i64 [N, 2]", sizes.dtype(), sizes.shape(),
      images.shape());
  SACCADE_CHECK(y.shape() == images.shape(), "[normalize_image] output {}, expected {}", y.shape(),
                images.shape());
  SACCADE_CHECK(images.is_contiguous() && (!sizes.defined() || sizes.is_contiguous()) && y.is_contiguous(),
                "[normalize_image] needs contiguous tensors");
  dispatch_float(y.dtype(), "normalize_image", [&]<class T>() {
    NormalizeRow<T> f{images.data<uint8_t>(),
                      {data_or_null<int64_t>(sizes), images.dim(1), images.dim(2)},
                      {norm.mean[0], norm.mean[1], norm.mean[2]},
                      {norm.std[0], norm.std[1], norm.std[2]},
                      y.data<T>()};
    for_each(images.dim(0) * images.dim(1), f, 6 * images.dim(2));
  });
}

SACCADE_REGISTER_KERNEL(normalize_image, &normalize_image_generic);

}  // namespace
}  // namespace saccade::kernels
