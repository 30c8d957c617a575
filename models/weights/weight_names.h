// Translates the names that others use for the tensors of models that exist here, such as those of Hugging
// Face, torchvision and timm, to the official ones, which are ours. Some files split what is one tensor here
// (queries, keys and values).
#pragma once

#include <string>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

// A tensor under its official name, made of one or several tensors of the file, joined along the first axis.
struct NamedWeight {
  std::string name;
  Shape shape;
  std::vector<std::string> parts;
  bool is_unfolded = false;  // see WeightRule: read_weight puts its last axis in order
};

struct OfficialWeights {
  std::string naming;                // for messages: "official", "Hugging Face DETR" ...
  std::vector<NamedWeight> tensors;  // in the order of the file
  std::vector<std::string> ignored;  // counters and caches that hold nothing learned
  std::string chosen;  // for a file with the weights and their averages: which are used; else ""

  const NamedWeight* find(const std::string& name) const;  // null when absent
};

// Throws InputError if parts of a tensor are missing or do not fit each other, or if two tensors get one
// name. A name that no table knows stays unchanged.
OfficialWeights official_weights(const WeightsFile& file);
// Uses the naming with this name, whatever its markers say; with "", keeps the names unchanged.
OfficialWeights official_weights(const WeightsFile& file, const std::string& naming);

Tensor read_weight(const WeightsFile& file, const NamedWeight& weight);

// Recognises weights of models that do not exist here by names that only they have.
// Returns what to call them: "weights of Conditional DETR, a model that saccade does not have"; "" for all
// others.
std::string foreign_model(const WeightsFile& file);
// The same for those models that share many names and shapes with ours, which mean little without the rest.
std::string other_version(const WeightsFile& file);

// The classes of ImageNet-1k (ILSVRC 2012) in the usual order, that of their WordNet ids.
const std::vector<std::string>& imagenet_class_names();  // [1000], all different

}  // namespace saccade
