#include "models/pyramid/sampler.h"

#include <algorithm>
#include <utility>

#include "core/tensor/philox.h"
#include "models/pyramid/max_iou_assigner.h"

namespace saccade {
namespace {

// The `count` of them whose random numbers are the smallest.
void keep_some(std::vector<int64_t>& positions, int64_t count, uint64_t key, int64_t image_id) {
  if (std::ssize(positions) <= count) return;
  std::vector<std::pair<uint64_t, int64_t>> drawn;
  drawn.reserve(positions.size());
  for (int64_t at : positions) {
    const Philox bits = Philox::generate(key, static_cast<uint64_t>(image_id), static_cast<uint64_t>(at));
    drawn.emplace_back(uint64_t{bits.x[0]} << 32 | bits.x[1], at);
  }
  std::nth_element(drawn.begin(), drawn.begin() + count, drawn.end());
  positions.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = drawn[i].second;
  std::sort(positions.begin(), positions.end());
}

}  // namespace

Sample sample_candidates(std::span<const int32_t> assigned, const SamplerOptions& options, uint64_t key,
                         int64_t image_id, std::string_view stage) {
  Sample sample;
  for (size_t i = 0; i < assigned.size(); ++i) {
    if (assigned[i] >= 0) sample.positives.push_back(static_cast<int64_t>(i));
    if (assigned[i] == kBackground) sample.negatives.push_back(static_cast<int64_t>(i));
  }
  const uint64_t own = mix_key(key, hash_name(stage));
  keep_some(sample.positives, static_cast<int64_t>(static_cast<double>(options.count) * options.positives),
            own, image_id);
  keep_some(sample.negatives, options.count - std::ssize(sample.positives), own, image_id);
  return sample;
}

}  // namespace saccade
