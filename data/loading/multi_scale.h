// One size for all images of a batch, drawn for each: the multi-scale training of the YOLO and RT-DETR
// families.
#pragma once

#include <cstdint>
#include <vector>

#include "data/augment/augment.h"
#include "data/loading/batch.h"

namespace saccade {

struct MultiScale {
  std::vector<int64_t> heights;  // one is drawn, with equal chance of each entry; empty: the size stays
  EpochRange epochs;
  bool bilinear = false;
};

// To this height, the width in proportion (rounded), as torch's interpolate does it with mode "nearest", or
// "bilinear" (without antialias, rounded to bytes). All images must fill the batch (no padding).
void resize_batch(Batch& batch, int64_t height, bool bilinear = false);

}  // namespace saccade
