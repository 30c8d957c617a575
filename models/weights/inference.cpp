#include "models/weights/inference.h"

namespace saccade {

Inference::Inference(const WeightsFile& file, const OfficialWeights& weights, const Args& given,
                     ModelJson json)
    : file_(file), given_(given), json_(std::move(json)), naming_(weights.naming) {
  for (const NamedWeight& w : weights.tensors) by_name_[w.name] = &w;
}

std::string Inference::name_in_json(const std::string& name) {
  static const std::map<std::string, std::string> kNames{{"nheads", "decoder_attention_heads"},
                                                         {"eos_coef", "eos_coefficient"},
                                                         {"sa_nheads", "decoder_self_attention_heads"},
                                                         {"ca_nheads", "decoder_cross_attention_heads"}};
  const auto it = kNames.find(name);
  return it == kNames.end() ? name : it->second;
}

int64_t Inference::size(const std::string& name, int axis) const {
  auto it = by_name_.find(name);
  if (it == by_name_.end() || it->second->shape.rank() <= axis)
    fail_input("{}: no tensor \"{}\" with {} axes, which a model of its kind has", file_.path(), name,
               axis + 1);
  const int64_t size = it->second->shape[axis];
  if (size > INT32_MAX) fail_input("{}: a size of {} is too large for a model", file_.path(), size);
  return size;
}

int64_t Inference::count(const std::string& prefix, const std::string& suffix) const {
  int64_t n = 0;
  while (has(prefix + std::to_string(n) + suffix)) ++n;
  return n;
}

void expect_vision_json(const Inference& weights, const std::string& section) {
  weights.expect_in_json<std::string>(section + "hidden_act", "gelu");
  constexpr double kLargest = 1e-5;
  if (const auto eps = weights.json().find<double>(section + "layer_norm_eps");
      eps && !(*eps >= 0 && *eps <= kLargest))
    fail_input("{}: layer_norm_eps is {}, which is not supported, expected at most {}", weights.json().path,
               *eps, kLargest);
}

void infer_classes(Inference& weights, const std::string& head, const UsualImages& images) {
  weights.set("model.num_classes", weights.size(head + "weight", 0));
  for (const char* field : {"data.augment.height", "data.augment.width", "data.val_height", "data.val_width"})
    weights.set(field, images.side);
  weights.set("data.val_crop_pct", images.center);
  weights.set("data.interpolation", images.interpolation);
  weights.assumed.push_back(fmt::format("data.val_crop_pct: {}", images.center));
  weights.assumed.push_back(fmt::format("data.interpolation: {}", images.interpolation));
}

}  // namespace saccade
