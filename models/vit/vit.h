// ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021), with timm's parameter names: class token,
// learned positions, pre-norm blocks, a last `norm` and `head` on the class token; `distilled` adds DeiT's
// `dist_token` and `head_dist`, and the logits are the mean of both heads.
// Images of any size: zeros fill the image up to whole patches; the positions of another patch grid are the
// learned ones resized bicubically (a = -0.75, cell centres), as in DeiT's fine-tuning.
// As a backbone it gives one map, the patch tokens after the last norm, at 1 / patch of the image; a
// detector's further levels come from its stride-2 convolutions.
#pragma once

#include "layers/args.h"
#include "models/backbone.h"
#include "models/classifier.h"

namespace saccade {

struct ViTOptions {
  int64_t image_size = 224;  // the positions belong to (image_size / patch)^2 patches
  int64_t patch = 16;
  int64_t dim = 768;
  int64_t depth = 12;
  int64_t heads = 12;
  double mlp_ratio = 4;
  double drop_path = 0;  // of the last block
  bool distilled = false;
  Args attention;  // section of the blocks' attention layer; empty: `self_attention`
};

}  // namespace saccade
