#include "train/inference/model_input.h"

#include "core/kernels/copy/copy.h"

namespace saccade {

namespace {

Tensor upload(const Tensor& x, Device device) {
  if (device == Device::kCpu) return x;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  kernels::start_upload(x, &y);
  return y;
}

// The sizes of the images without padding; empty if nothing is padded.
std::vector<ImageSize> padded_sizes(const Batch& batch) {
  std::vector<ImageSize> sizes;
  bool padded = false;
  for (const Target& t : batch.targets) {
    sizes.push_back({t.height, t.width});
    padded |= t.height != batch.images.dim(1) || t.width != batch.images.dim(2);
  }
  if (!padded) sizes.clear();
  return sizes;
}

}  // namespace

Var normalized_images(const Batch& batch, const kernels::ImageNormalization& norm, Device device) {
  std::vector<int64_t> numbers;
  for (const ImageSize& size : padded_sizes(batch)) numbers.insert(numbers.end(), {size.height, size.width});
  Tensor sizes;
  if (!numbers.empty()) sizes = Tensor::from<int64_t>({batch.images.dim(0), 2}, numbers, device);
  Tensor bytes = upload(batch.images, device);
  // The first layer of every model reads the images in the compute dtype, so a GPU writes that directly.
  const bool low = device == Device::kCuda && execution().compute == DType::kBF16;
  Tensor images = Tensor::empty(bytes.shape(), low ? DType::kBF16 : DType::kF32, device);
  kernels::normalize_image(bytes, sizes, norm, images);
  return Var(images);
}

DetectorInput detector_input(const Batch& batch, const kernels::ImageNormalization& norm, Device device) {
  return {.images = normalized_images(batch, norm, device), .sizes = padded_sizes(batch)};
}

}  // namespace saccade
