// Backbones: images in, a pyramid of feature maps out.
#pragma once

#include <memory>
#include <vector>

#include "layers/args.h"
#include "layers/module.h"

namespace saccade {

class Backbone : public Module {
 public:
  // images [N, H, W, 3] -> the chosen stages' maps [N, H_i, W_i, C_i], finest first
  virtual std::vector<Var> forward(const Var& images) = 0;
  virtual std::vector<int64_t> channels() const = 0;  // C_i
};

// From the config section model.backbone (see configs/saccade.proto). `default_outputs`: the stages the model
// wants.
std::shared_ptr<Backbone> build_backbone(const Args& args, const std::vector<int64_t>& default_outputs);

}  // namespace saccade
