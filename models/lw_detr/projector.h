// From the maps of a plain vision transformer, which all have one size, to those that the decoder reads (Chen
// et al. 2024, LW-DETR, section 3.2), with the names of the official code.
#pragma once

#include "layers/conv2d.h"
#include "models/common/conv_norm.h"

namespace saccade {

struct ProjectorOptions {
  int64_t dim = 256;
  int64_t levels = 1;       // 1: a map of the same size; 2: one twice as fine, one twice as coarse
  int64_t blocks = 3;       // of two 3x3 convolutions each
  bool batch_norm = false;  // after a convolution; else a layer norm over its channels
};

class Projector : public Module {
 public:
  Projector(const std::vector<int64_t>& channels, const ProjectorOptions& options);
  // [N, H, W, C_i] of one size -> [N, H_l, W_l, dim]
  Vars forward(const Vars& maps) const;

 private:
  class NormedConv;
  class Fusion;
  class Resampled;
  struct Level {
    std::vector<Child<Resampled>> resampled;  // of each map; empty: they keep their size
    Child<Fusion> fusion;
    Child<LayerNorm> norm;
  };
  std::vector<Level> levels_;
};

}  // namespace saccade
