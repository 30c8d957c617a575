// RF-DETR's configuration from weights.
#pragma once

#include "models/weights/inference.h"

namespace saccade {

bool infer_rf_detr(Inference& weights);  // see ModelSpec::infer
bool infer_rf_detr_seg(Inference& weights);

}  // namespace saccade
