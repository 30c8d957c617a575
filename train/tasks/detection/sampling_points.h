// Where the attention of a detector looked, for pictures.
#pragma once

#include <vector>

#include "data/images/draw.h"
#include "data/loading/batch.h"
#include "layers/attention.h"

namespace saccade {

// Adds the points at which the last decoder layer sampled for one query of image n, in pixels of its
// original, as opaque as their weights. `record`: DetectorOutput::sampling.back().
void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t n, int64_t query,
                         int64_t label, std::vector<DrawnPoint>& points);

}  // namespace saccade
