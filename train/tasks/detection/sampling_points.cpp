#include "train/tasks/detection/sampling_points.h"

#include <algorithm>

namespace saccade {

void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t n, int64_t query,
                         int64_t label, std::vector<DrawnPoint>& points) {
  const Target& target = batch.targets[static_cast<size_t>(n)];
  double x_scale = static_cast<double>(batch.images.dim(2)) / static_cast<double>(target.width) *
                   static_cast<double>(target.original_width);
  double y_scale = static_cast<double>(batch.images.dim(1)) / static_cast<double>(target.height) *
                   static_cast<double>(target.original_height);
  std::vector<float> xy = record.locations.select(0, n).select(0, query).to_vector<float>();
  std::vector<float> weights = record.weights.select(0, n).select(0, query).to_vector<float>();
  float largest = *std::max_element(weights.begin(), weights.end());
  for (size_t i = 0; i < weights.size(); ++i)
    points.push_back(
        {xy[2 * i] * x_scale, xy[2 * i + 1] * y_scale, weights[i] / std::max(largest, 1e-9f), label});
}

}  // namespace saccade
