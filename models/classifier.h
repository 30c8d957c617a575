// Image classifiers: a backbone with the class head of its official model.
#pragma once

#include "layers/module.h"

namespace saccade {

class Classifier : public Module {
 public:
  static constexpr const char* kKind = "an image classifier";  // for messages
  virtual Var forward(const Var& images) = 0;                  // [N, H, W, 3] normalised -> logits [N, K]
  virtual int64_t num_classes() const = 0;                     // K
};

}  // namespace saccade
