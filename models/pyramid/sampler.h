// Which of an image's candidates a loss looks at, where there are far more than it needs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace saccade {

struct SamplerOptions {
  int64_t count = 256;
  double positives = 0.5;  // at most this part of them stands for an object
};

// Positions among the candidates, rising. Background fills what objects leave, so there are `count` unless
// there are too few candidates.
struct Sample {
  std::vector<int64_t> positives, negatives;
};

// assigned: as assign_max_iou gives it. The choice is by chance, of the key (the step's:
// execution().rng_key), the image, the stage ("rpn", "rcnn.0") and a candidate's position alone, so that
// neither the batch nor what pads it, ranks or threads change it.
Sample sample_candidates(std::span<const int32_t> assigned, const SamplerOptions& options, uint64_t key,
                         int64_t image_id, std::string_view stage);

}  // namespace saccade
