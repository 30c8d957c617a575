// Samples the candidates of an image that a loss uses, if there are far more than it needs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace saccade {

struct SamplerOptions {
  int64_t count = 256;
  double positives = 0.5;  // at most this fraction of them has an object
};

// Ascending indices of candidates. Background fills the places that objects leave, so there are `count`
// unless there are too few candidates.
struct Sample {
  std::vector<int64_t> positives, negatives;
};

// assigned: the result of assign_max_iou. The random choice depends only on the key (the step's:
// execution().rng_key), the image, the stage ("rpn", "rcnn.0") and a candidate's index, so that neither the
// batch nor padding, ranks or threads change it.
Sample sample_candidates(std::span<const int32_t> assigned, const SamplerOptions& options, uint64_t key,
                         int64_t image_id, std::string_view stage);

}  // namespace saccade
