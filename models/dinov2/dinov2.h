// Parts of DINOv2 that others use: the windows of a map's tokens, and the names of its weights.
#pragma once

#include "autograd/ops.h"
#include "models/weights/weight_naming.h"

namespace saccade {

// Cuts a map [N, H, W, C] into side x side windows of tokens of equal size,
// [N * side^2, H / side * W / side, C], and joins them again; map: H and W.
Var cut_windows(const Var& map, int64_t side);
Var join_windows(const Var& windows, const MapSize& map, int64_t side);

// Rules for Hugging Face's names, which begin with `from` there and with `to` here.
WeightRules dinov2_rules(const std::string& from, const std::string& to);

}  // namespace saccade
