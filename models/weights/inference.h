// Infers the configuration of a model from its weights. Names and shapes determine nearly all of it; the
// arguments stored in official .pth files give most of the rest. Each model has its own rule, in its folder
// (ModelSpec::infer, BackboneSpec::infer).
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
  // given: what the user sets in the section `model`; it is not looked up in the file.
  // json: the config.json next to the file.
  Inference(const WeightsFile& file, const OfficialWeights& weights, const Args& given, ModelJson json = {});

  // The contents of the file.
  bool has(const std::string& name) const { return by_name_.contains(name); }
  int64_t size(const std::string& name, int axis) const;  // throws InputError if there is none
  // Returns the number of PREFIX0.SUFFIX, PREFIX1.SUFFIX ... that exist.
  int64_t count(const std::string& prefix, const std::string& suffix) const;
  Tensor read(const std::string& name) const { return read_weight(file_, *by_name_.at(name)); }
  template <class T>
  std::optional<T> argument(const std::string& name) const {
    auto it = file_.scalars().find("args." + name);
    const T* value = it == file_.scalars().end() ? nullptr : std::get_if<T>(&it->second);
    return value ? std::optional<T>(*value) : json_.find<T>(name_in_json(name));
  }
  const ModelJson& json() const { return json_; }
  // Throws InputError if config.json has another value than the one that this program computes with.
  template <class T>
  void expect_in_json(const std::string& name, const T& value) const {
    if (const auto other = json_.find<T>(name); other && *other != value)
      fail_input("{}: {} is {}, which is not supported, expected {}", json_.path, name,
                 printable(fmt::format("{}", *other)), value);
  }
  const Args& given() const { return given_; }
  const std::string& path() const { return file_.path(); }
  const std::string& naming() const { return naming_; }  // OfficialWeights::naming

  // The inferred configuration, field by field.
  template <class T>
  void set(const std::string& field, const T& value) {
    fields.emplace_back(field, fmt::format("{}", value));
  }
  // Returns the file's argument, or else a default, which is added to `assumed`.
  template <class T>
  T argument_or(const std::string& name, T otherwise, const std::string& field) {
    if (std::optional<T> value = argument<T>(name)) return *value;
    assumed.push_back(fmt::format("{}: {}", field, otherwise));
    return otherwise;
  }

  // In the form of --set: ("model.transformer.heads", "8").
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::string> assumed;  // values that the file does not tell: "model.transformer.heads: 8"

 private:
  // Returns config.json's name for an argument of the official programs.
  static std::string name_in_json(const std::string& name);

  const WeightsFile& file_;
  const Args& given_;
  ModelJson json_;
  std::string naming_;
  std::map<std::string, const NamedWeight*> by_name_;
};

// For classifiers: sets the number of classes to that of the head, and images of this side,
// resized and cropped in the usual way.
struct UsualImages {
  int64_t side = 224;
  const char* interpolation = "bicubic";
  double center = 0.875;
};
void infer_classes(Inference& weights, const std::string& head, const UsualImages& images);
// For ViT, Swin and DINOv2, or one that is part of another model with its own section ("backbone_config.").
// Throws InputError if config.json has another activation than GELU, or norms with an epsilon above 1e-5. A
// smaller epsilon (Hugging Face writes 1e-12) makes no difference: it is lost in the rounding of the
// variances that it is added to.
void expect_vision_json(const Inference& weights, const std::string& section = "");

}  // namespace saccade
