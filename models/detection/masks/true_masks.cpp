#include "models/detection/masks/true_masks.h"

#include <cstring>

#include "autograd/scope.h"
#include "core/kernels/mask_points/mask_points.h"
#include "core/tensor/philox.h"

namespace saccade {

TrueMasks::TrueMasks(const std::vector<Target>& targets, ImageSize canvas, Device device) {
  std::vector<float> weights;
  std::vector<int64_t> images;
  for (size_t n = 0; n < targets.size(); ++n)
    for (const Instance& instance : targets[n].instances) {
      weights.push_back(instance.mask ? 1 : 0);
      images.push_back(static_cast<int64_t>(n));
    }
  const auto R = std::ssize(weights);
  Tensor bitmaps = Tensor::zeros({R, canvas.height, canvas.width}, DType::kU8);
  int64_t row = 0;
  for (const Target& image : targets)
    for (const Instance& instance : image.instances) {
      if (instance.mask) {
        const std::vector<uint8_t> pixels =
            instance.mask->resize({image.height, image.width}).crop(0, 0, canvas).bitmap();
        std::memcpy(bitmaps.data<uint8_t>() + row * std::ssize(pixels), pixels.data(), pixels.size());
      }
      ++row;
    }
  bitmaps_ = bitmaps.to(device);
  weights_ = Tensor::from<float>({R}, weights, device);
  images_ = Tensor::from<int64_t>({R}, images, device);
}

Tensor TrueMasks::at(const Tensor& points_of_images) const {
  const int64_t R = images_.dim(0), P = points_of_images.dim(1);
  Tensor inside = Tensor::empty({R, P}, DType::kF32, images_.device());
  if (R == 0) return inside;
  NoGrad no_grad;
  std::vector<int64_t> all;
  for (int64_t r = 0; r < R; ++r) all.push_back(r);
  const Tensor points = index_select(Var(points_of_images), images_).value().contiguous();
  kernels::mask_points(bitmaps_, Tensor::from<int64_t>({R}, all, images_.device()), points, inside);
  return inside;
}

Tensor random_points(const std::vector<PointRow>& rows, int64_t count, uint64_t key, Device device) {
  std::vector<float> numbers;
  numbers.reserve(rows.size() * static_cast<size_t>(2 * count + 2));
  for (const PointRow& row : rows) {
    const size_t end = numbers.size() + static_cast<size_t>(2 * count);
    for (uint64_t block = 0; numbers.size() < end; ++block) {
      const Philox bits = Philox::generate(key, static_cast<uint64_t>(row.image_id),
                                           static_cast<uint64_t>(row.number) << 32 | block);
      for (uint32_t b : bits.x) numbers.push_back(uniform_from_bits(b));
    }
    numbers.resize(end);
  }
  return Tensor::from<float>({std::ssize(rows), count, 2}, numbers, device);
}

Var sample_at(const Var& map, const Tensor& points) {
  auto axis = [&](int i, int64_t size) {
    const double edge = 1 - 1 / static_cast<double>(size);
    return clamp(add_scalar(mul_scalar(slice(Var(points), 2, i, i + 1), 2), -1), -edge, edge);
  };
  return grid_sample(map, concat({axis(0, map.dim(2)), axis(1, map.dim(1))}, 2), false);
}

Tensor logits_at(const MaskFactors& factors, const Tensor& points_of_images) {
  NoGrad no_grad;
  const Var pixels = sample_at(cast(factors.pixels, DType::kF32), points_of_images);  // [N, P, C]
  const int axes[] = {0, 2, 1};
  return add(matmul(cast(factors.queries, DType::kF32), permute(pixels, axes)), factors.bias).value();
}

}  // namespace saccade
