// Where the attention of a detector looked, for pictures.
#pragma once

#include <vector>

#include "data/images/draw.h"
#include "data/loading/batch.h"
#include "layers/attention.h"

namespace saccade {

// Adds the points at which the last decoder layer sampled for one query, in pixels of the original image of a batch of one, as
// opaque as their weights. `record`: DetectorOutput::sampling.back().
void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t query, int64_t label,
                         std::vector<DrawnPoint>& points);

}  // namespace saccade
