// The configuration of a model from its weights: names and shapes say nearly all, the arguments that official
// .pth files carry most of the rest. Each model has its own rule, in its folder (ModelSpec::infer,
// BackboneSpec::infer).
#pragma once

#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/error.h"
#include "layers/args.h"
#include "models/weights/model_json.h"
#include "models/weights/weight_names.h"

namespace saccade {

class Inference {
 public:
  // given: what the user sets in the section `model`; it is not asked of the file.
  // json: what is next to the file.
  Inference(const WeightsFile& file, const OfficialWeights& weights, const Args& given, ModelJson json = {});

  // What the file holds.
  bool has(const std::string& name) const { return by_name_.contains(name); }
  int64_t size(const std::string& name, int axis) const;  // throws InputError when there is none
  // How many of PREFIX0.SUFFIX, PREFIX1.SUFFIX ... there are.
  int64_t count(const std::string& prefix, const std::string& suffix) const;
  Tensor read(const std::string& name) const { return read_weight(file_, *by_name_.at(name)); }
  template <class T>
  std::optional<T> argument(const std::string& name) const {
    auto it = file_.scalars().find("args." + name);
    const T* value = it == file_.scalars().end() ? nullptr : std::get_if<T>(&it->second);
    return value ? std::optional<T>(*value) : json_.find<T>(name_in_json(name));
  }
  const ModelJson& json() const { return json_; }
  // Throws InputError where config.json has another value than the one that is computed with here.
  template <class T>
  void expect_in_json(const std::string& name, const T& value) const {
    if (const auto other = json_.find<T>(name); other && *other != value)
      fail_input("{}: {} is {}, which is not there here, expected {}", json_.path, name,
                 printable(fmt::format("{}", *other)), value);
  }
  const Args& given() const { return given_; }
  const std::string& path() const { return file_.path(); }
  const std::string& naming() const { return naming_; }  // OfficialWeights::naming

  // What the configuration becomes, field by field.
  template <class T>
  void set(const std::string& field, const T& value) {
    fields.emplace_back(field, fmt::format("{}", value));
  }
  // The file's argument, or a default that is then mentioned.
  template <class T>
  T argument_or(const std::string& name, T otherwise, const std::string& field) {
    if (std::optional<T> value = argument<T>(name)) return *value;
    assumed.push_back(fmt::format("{}: {}", field, otherwise));
    return otherwise;
  }

  // In the form of --set: ("model.transformer.heads", "8").
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::string> assumed;  // what the file does not say: "model.transformer.heads: 8"

 private:
  // What config.json calls an argument of the official programs.
  static std::string name_in_json(const std::string& name);

  const WeightsFile& file_;
  const Args& given_;
  ModelJson json_;
  std::string naming_;
  std::map<std::string, const NamedWeight*> by_name_;
};

// Of a classifier: as many classes as its head has, and images of this side,
// resized and cut as they usually are.
struct UsualImages {
  int64_t side = 224;
  const char* interpolation = "bicubic";
  double center = 0.875;
};
void infer_classes(Inference& weights, const std::string& head, const UsualImages& images);
// Of ViT, Swin and DINOv2; of one that is a part of another model in its section ("backbone_config."). Throws
// InputError where config.json has another activation than GELU, or norms with a larger epsilon than 1e-5;
// how small a smaller one is (Hugging Face writes 1e-12) is lost in the rounding of the variances that it is
// added to.
void expect_vision_json(const Inference& weights, const std::string& section = "");

}  // namespace saccade
