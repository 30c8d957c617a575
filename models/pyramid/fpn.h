// Feature pyramid network (Lin et al. 2017): each map of the backbone with what the coarser ones say,
// all of one width.
#pragma once

#include <vector>

#include "layers/conv2d.h"

namespace saccade {

struct FpnOptions {
  int64_t channels = 256;
  // Levels above those of the backbone's maps, each half as fine as the one below, and what makes the first
  // of them. The further ones are made of the one below.
  int64_t extra_levels = 0;
  enum class Extra {
    kMaxPool,        // every second cell of the last level
    kConvOnInput,    // a 3x3 convolution of stride 2 of the backbone's last map
    kConvOnPyramid,  // the same of the last level
  } extra = Extra::kMaxPool;
  bool extra_relu = false;  // between these convolutions
};

// Names: lateral_convs.I.conv and fpn_convs.I.conv, as in mmdetection;
// convolutions of further levels continue in fpn_convs.
class Fpn : public Module {
 public:
  // in: channels of the backbone's maps, finest first.
  Fpn(const std::vector<int64_t>& in, const FpnOptions& options);
  // maps [N, H_l, W_l, C_l], each as fine as the next but twice (rounded up) -> as many and the extra levels,
  // [N, H_l, W_l, channels]
  Vars forward(const Vars& maps) const;

 private:
  FpnOptions options_;
  std::vector<Child<Conv2d>> lateral_, out_;  // out_: those of the extra levels last
};

}  // namespace saccade
