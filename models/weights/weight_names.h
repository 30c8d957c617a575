// The names under which others keep the tensors of models that exist here too: Hugging Face's, torchvision's
// and timm's, translated to the official ones, which are ours. Some files split what is one tensor here
// (queries, keys and values).
#pragma once

#include <string>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

// A tensor under its official name, from one tensor of the file or from several, joined along the first axis.
struct NamedWeight {
  std::string name;
  Shape shape;
  std::vector<std::string> parts;
  bool is_unfolded = false;  // WeightRule's: read_weight puts its last axis in order
};

struct OfficialWeights {
  std::string naming;                // for messages: "official", "Hugging Face DETR" ...
  std::vector<NamedWeight> tensors;  // in the order of the file
  std::vector<std::string> ignored;  // counters and caches that hold nothing learned
  std::string chosen;  // of a file that holds the weights and their averages: which are taken; else ""

  const NamedWeight* find(const std::string& name) const;  // null when absent
};

// Throws InputError when parts of a tensor are missing, do not fit each other, or two tensors get one name. A
// name that no table knows stays as it is.
OfficialWeights official_weights(const WeightsFile& file);
// By the naming of this name, whatever its markers say; "": under the names as they are.
OfficialWeights official_weights(const WeightsFile& file, const std::string& naming);

Tensor read_weight(const WeightsFile& file, const NamedWeight& weight);

// Weights of models that are not here, by names that only they have.
// What to call them: "weights of Conditional DETR, a model that is not here"; "" for all others.
std::string foreign_model(const WeightsFile& file);
// Of these, the ones of which many tensors have names and shapes of ours, but mean little without the rest.
std::string other_version(const WeightsFile& file);

// The classes of ImageNet-1k (ILSVRC 2012) in the usual order, that of their WordNet numbers.
const std::vector<std::string>& imagenet_class_names();  // [1000], all different

}  // namespace saccade
