#include "train/inference/model_input.h"

#include "core/kernels/copy/copy.h"

namespace saccade {

namespace {

Tensor upload(const Tensor& x, Device device) {
  if (device == Device::kCpu) return x;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  kernels::start_upload(x, y);
  return y;
}

}  // namespace

Var normalized_images(const Batch& batch, const kernels::ImageNormalization& norm, Device device) {
  Tensor bytes = upload(batch.images, device), mask = upload(batch.padding_mask, device);
  Tensor images = Tensor::empty(bytes.shape(), DType::kF32, device);
  kernels::normalize_image(bytes, mask, norm, images);
  return Var(images);
}

DetectorInput detector_input(const Batch& batch, const kernels::ImageNormalization& norm, Device device) {
  DetectorInput input;
  input.images = normalized_images(batch, norm, device);
  bool padded = false;
  for (const Target& t : batch.targets) {
    input.sizes.push_back({t.height, t.width});
    padded |= t.height != batch.images.dim(1) || t.width != batch.images.dim(2);
  }
  if (!padded) input.sizes.clear();
  return input;
}

}  // namespace saccade
