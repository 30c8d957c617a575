#include "models/detection/masks/true_masks.h"

#include <numeric>

#include "autograd/scope.h"
#include "core/kernels/mask_points/mask_points.h"

namespace saccade {

TrueMasks::TrueMasks(const std::vector<Target>& targets, ImageSize canvas, Device device) : canvas_(canvas) {
  std::vector<float> weights;
  std::vector<int64_t> images, runs, begins{0};
  for (size_t n = 0; n < targets.size(); ++n)
    for (const Instance& instance : targets[n].instances) {
      weights.push_back(instance.mask ? 1 : 0);
      images.push_back(static_cast<int64_t>(n));
      if (instance.mask) {
        const Mask mask = instance.mask->resize({targets[n].height, targets[n].width}).crop(0, 0, canvas);
        for (const Mask::Run& run : mask.runs()) runs.insert(runs.end(), {run.begin, run.end});
      }
      begins.push_back(std::ssize(runs) / 2);
    }
  const auto R = std::ssize(weights);
  runs_ = Tensor::from<int64_t>({std::ssize(runs) / 2, 2}, runs, device);
  begins_ = Tensor::from<int64_t>({R + 1}, begins, device);
  weights_ = Tensor::from<float>({R}, weights, device);
  images_ = Tensor::from<int64_t>({R}, images, device);
}

Tensor TrueMasks::at(const Tensor& rows, const Tensor& points) const {
  Tensor inside = Tensor::empty({points.dim(0), points.dim(1)}, DType::kF32, points.device());
  kernels::mask_points(runs_, begins_, canvas_.height, canvas_.width, rows, points, inside);
  return inside;
}

Tensor TrueMasks::at(const Tensor& points_of_images) const {
  const int64_t R = images_.dim(0);
  if (R == 0) return Tensor::empty({0, points_of_images.dim(1)}, DType::kF32, images_.device());
  NoGrad no_grad;
  std::vector<int64_t> all(static_cast<size_t>(R));
  std::iota(all.begin(), all.end(), 0);
  return at(Tensor::from<int64_t>({R}, all, images_.device()),
            index_select(Var(points_of_images), images_).value().contiguous());
}

Tensor random_points(const std::vector<PointRow>& rows, int64_t count, uint64_t key, Device device) {
  std::vector<int64_t> numbers;
  for (const PointRow& row : rows) numbers.insert(numbers.end(), {row.image_id, row.number});
  Tensor points = Tensor::empty({std::ssize(rows), count, 2}, DType::kF32, device);
  kernels::random_points(Tensor::from<int64_t>({std::ssize(rows), 2}, numbers, device), key, points);
  return points;
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
