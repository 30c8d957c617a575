// Weights in several files, as Hugging Face writes large models: model.safetensors.index.json says which
// tensor lies in which of model-00001-of-00002.safetensors and so on ("weight_map"). Older ones are
// pytorch_model.bin.index.json.
#pragma once

#include <memory>
#include <string>

#include "core/formats/weights_file.h"

namespace saccade {

std::unique_ptr<WeightsFile> open_weight_index(const std::string& path, const std::string& key);

// Throws InputError when a path is that of one part of several, which is no model.
void refuse_weight_part(const std::string& path);

}  // namespace saccade
