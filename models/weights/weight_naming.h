// Tables of the names that others give to the tensors of our models. Each model has its own, in its folder,
// and registers it: models/swin/swin.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/formats/weights_file.h"
#include "core/runtime/registry.h"

namespace saccade {

// Where a model's backbone is: in DETR's relatives, and in all others.
constexpr const char* kOfficialBackbone = "backbone.0.body.";
constexpr const char* kPlainBackbone = "backbone.";

// A rule replaces the start of a name. In `from`, a star stands for all up to the next dot. In `to`, the
// stars' texts follow in order: * as it is, + and - as the number one higher or lower. `part`: the tensor is
// this one of the `parts` of a fused one. `is_unfolded`: its last axis is of patches of 2 x 2 as
// torch.nn.Unfold gives them (channels before places), not as Swin joins them.
struct WeightRule {
  std::string from, to;
  int part = -1, parts = 3;
  bool is_unfolded = false;
};
using WeightRules = std::vector<WeightRule>;

// Rules (from, to) whose `from` may have alternatives: "(fc1|mlp.fc1)." stands for two rules, "[q|k|v]_proj."
// for three and "[key|value]." for two whose parts these are. `shared` follow.
WeightRules weight_rules(const std::vector<std::pair<std::string, std::string>>& rules,
                         WeightRules shared = {});
// Those of Hugging Face for a vision transformer's block, whose name begins with `from` there and with `to`
// here.
WeightRules vision_block_rules(const std::string& from, const std::string& to);
// Those of torchvision for a backbone and the feature pyramid on it, of its versions from 0.13 on and before.
WeightRules torchvision_pyramid_rules();

struct WeightNaming {
  std::string name;  // for messages: "Hugging Face DETR"
  std::string file;
  // A file is recognised by a tensor whose name contains one of them, the longest of all namings,
  // or else by a function.
  std::vector<std::string> markers = {};
  std::string prefix = "";  // left out wherever a name has it
  WeightRules rules;
  // A detector's goes before those of backbones, whose markers its own backbone may have, and its names may
  // begin with "model.", which is a wrapper elsewhere. The rules of a backbone with names like no other are
  // tried inside all detectors.
  enum Scope { kBackbone, kBackboneInDetectors, kDetector } scope = kBackbone;
  bool (*recognise)(const WeightsFile& file) = nullptr;
  // Files hold some tensors twice, under names that come to the same.
  bool has_copies = false;
  // What the names of tensors begin with that the model does not use.
  std::vector<std::string> unused = {};
};

inline Registry<WeightNaming>& weight_namings() { return registry_of<WeightNaming>("naming of weights"); }

}  // namespace saccade
