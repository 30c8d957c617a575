// The outputs of exported models, by task. A task registers its own in the file onnx_outputs.cpp of its
// folder, which is not compiled in builds without ONNX.
#pragma once

#include <memory>
#include <string>

#include "core/runtime/registry.h"
#include "train/config/config.h"
#include "train/export/export.h"

namespace saccade {

struct OutputChoice {
  int64_t classes = 0;       // classes with a name; further columns of the logits stand for none
  bool postprocess = false;  // results instead of the model's raw outputs
  bool raw_outputs = false;  // with postprocess: the raw outputs too
};

struct OnnxOutputs {
  std::string name;  // of the task
  std::string file;
  // Makes the outputs for a model of this configuration.
  std::shared_ptr<const ModelOutputs> (*make)(const Config& config, const OutputChoice& choice,
                                              const Module& model);
};
inline Registry<OnnxOutputs>& onnx_outputs() { return registry_of<OnnxOutputs>("exported task"); }

}  // namespace saccade
