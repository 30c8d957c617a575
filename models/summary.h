// The cost of a model: parameters, multiply-accumulates and activation memory, per module and in total. Every
// op reports its cost (macs() in autograd/ops); docs/complexity.md has the convention.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/classifier.h"
#include "models/detector.h"
#include "models/segmenter.h"

namespace saccade {

struct ModuleCost {
  std::string name;  // dotted path; "" is the model
  std::string type;
  int depth = 0;
  // Of the module with all its descendants.
  int64_t parameters = 0, trainable = 0;
  int64_t macs = 0;
  int64_t activation_bytes =
      0;  // outputs of all ops: an upper bound of what a training step in this precision holds
};

struct ModelSummary {
  int64_t parameters = 0, trainable = 0, macs = 0, activation_bytes = 0;
  std::vector<ModuleCost> modules;  // depth first
};

// Counts what `run` does with the model, which meanwhile is in evaluation mode and records no gradients.
ModelSummary summarize(Module& model, const std::function<void()>& run);
// The same for one image of height x width.
ModelSummary summarize(Detector& model, int64_t height, int64_t width);
ModelSummary summarize(Classifier& model, int64_t height, int64_t width);
ModelSummary summarize(Segmenter& model, int64_t height, int64_t width);

}  // namespace saccade
