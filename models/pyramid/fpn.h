// Feature pyramid network (Lin et al. 2017): adds to each map of the backbone what the coarser ones contain;
// all maps get the same number of channels.
#pragma once

#include <vector>

#include "layers/conv2d.h"

namespace saccade {

struct FpnOptions {
  int64_t channels = 256;
  // Additional levels above those of the backbone's maps, each half as fine as the one below, and how the
  // first of them is computed. Each of the others is computed from the one below.
  int64_t extra_levels = 0;
  enum class Extra {
    kMaxPool,        // every second cell of the last level
    kConvOnInput,    // a 3x3 convolution of stride 2 on the backbone's last map
    kConvOnPyramid,  // the same on the last level
  } extra = Extra::kMaxPool;
  bool extra_relu = false;  // between these convolutions
};

// The names are lateral_convs.I.conv and fpn_convs.I.conv, as in mmdetection;
// convolutions of additional levels continue in fpn_convs.
class Fpn : public Module {
 public:
  // in: channels of the backbone's maps, finest first.
  Fpn(const std::vector<int64_t>& in, const FpnOptions& options);
  // maps [N, H_l, W_l, C_l], each twice as fine as the next (rounded up) -> as many maps and the additional
  // levels, [N, H_l, W_l, channels]
  Vars forward(const Vars& maps) const;

 private:
  FpnOptions options_;
  std::vector<Child<Conv2d>> lateral_, out_;  // out_ ends with those of the additional levels
};

}  // namespace saccade
