// ResNet-vd (He et al. 2019, "Bag of tricks", D), as in RT-DETR and with its parameter names: a stem of three
// 3x3 convolutions, and average pooling before the 1x1 convolution of the shortcuts that stride.
#pragma once

#include "models/backbone.h"

namespace saccade {

struct ResNetOptions {
  std::vector<int64_t> blocks{3, 4, 6, 3};
  int64_t width = 64;      // channels of the stem and of the first stage's 3x3 convolutions
  bool bottleneck = true;  // else basic blocks
  bool variant_c = false;  // torchvision's ResNet with a stem of three 3x3 convolutions
  bool variant_d = false;  // make_resnet_d()
  bool dilation = false;   // DC5: the last stage dilates instead of striding; not with variant d
  bool frozen_batch_norm = true;
  bool frozen_statistics = false;         // of norms that are not frozen; not with variant d
  int64_t frozen_stages = 2;              // the first of {stem, stage 1, 2, ...} are not trained
  std::vector<int64_t> outputs{2, 3, 4};  // stages whose maps forward() returns, ascending
};

std::shared_ptr<Backbone> make_resnet_d(const ResNetOptions& options);

}  // namespace saccade
