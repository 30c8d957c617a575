// Tables of the names that others give to the tensors of our models. Each model has its own table in its
// folder and registers it: models/swin/swin.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/formats/weights_file.h"
#include "core/runtime/registry.h"

namespace saccade {

// The prefix of a model's backbone: in DETR's relatives, and in all others.
constexpr const char* kOfficialBackbone = "backbone.0.body.";
constexpr const char* kPlainBackbone = "backbone.";

// A rule replaces the start of a name. In `from`, a star matches everything up to the next dot. In `to`, the
// stars' texts follow in order: * unchanged, + and - as the number one higher or lower. `part`: the tensor is
// this one of the `parts` of a fused tensor. `is_unfolded`: its last axis consists of patches of 2 x 2 as
// torch.nn.Unfold orders them (channels before places), not as Swin joins them.
struct WeightRule {
  std::string from, to;
  int part = -1, parts = 3;
  bool is_unfolded = false;
};
using WeightRules = std::vector<WeightRule>;

// Makes rules from pairs (from, to) whose `from` may have alternatives: "(fc1|mlp.fc1)." stands for two
// rules, "[q|k|v]_proj." for three and "[key|value]." for two whose parts these are. `shared` rules follow.
WeightRules weight_rules(const std::vector<std::pair<std::string, std::string>>& rules,
                         WeightRules shared = {});
// Rules for Hugging Face's vision transformer block, whose name begins with `from` there and with `to` here.
WeightRules vision_block_rules(const std::string& from, const std::string& to);
// Rules for torchvision's backbone and feature pyramid, both of versions from 0.13 on and of older ones.
WeightRules torchvision_pyramid_rules();

struct WeightNaming {
  std::string name;  // for messages: "Hugging Face DETR"
  std::string file;
  // A file is recognised by a tensor whose name contains one of these, or else by a function. The longest
  // marker of all namings wins.
  std::vector<std::string> markers = {};
  std::string prefix = "";  // removed wherever a name has it
  WeightRules rules;
  // Detectors are tried before backbones, whose markers their own backbone may have, and their names may
  // begin with "model.", which is a wrapper elsewhere. The rules of a backbone with unique names are tried
  // inside all detectors.
  enum Scope { kBackbone, kBackboneInDetectors, kDetector } scope = kBackbone;
  bool (*recognise)(const WeightsFile& file) = nullptr;
  // Whether files hold some tensors twice, under names that translate to the same one.
  bool has_copies = false;
  // Prefixes of tensors that the model does not use.
  std::vector<std::string> unused = {};
};

inline Registry<WeightNaming>& weight_namings() { return registry_of<WeightNaming>("naming of weights"); }

}  // namespace saccade
