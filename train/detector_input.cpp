#include "train/detector_input.h"

namespace saccade {

DetectorInput detector_input(const Batch& batch, const kernels::ImageNormalization& norm, Device device) {
  Tensor bytes = batch.images.to(device), mask = batch.padding_mask.to(device);
  Tensor images = Tensor::empty(bytes.shape(), DType::kF32, device);
  kernels::normalize_image(bytes, mask, norm, images);
  DetectorInput input;
  input.images = Var(images);
  bool padded = false;
  for (const Target& t : batch.targets) {
    input.sizes.push_back({t.height, t.width});
    padded |= t.height != images.dim(1) || t.width != images.dim(2);
  }
  if (!padded) input.sizes.clear();
  return input;
}

}  // namespace saccade
