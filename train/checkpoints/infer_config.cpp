#include "train/checkpoints/infer_config.h"

#include <fmt/format.h>

#include <map>

#include "core/tensor/error.h"

namespace saccade {
namespace {

class Inference {
 public:
  Inference(const WeightsFile& file, const OfficialWeights& weights, const Config& given)
      : file_(file), given_(given) {
    for (const NamedWeight& w : weights.tensors) shapes_[w.name] = w.shape;
    for (const NamedWeight& w : weights.tensors) by_name_[w.name] = &w;
  }

  std::optional<InferredConfig> run() {
    deformable_ = has("transformer.level_embed");
    bool detr =
        has("class_embed.weight") && has("transformer.decoder.layers.0.multihead_attn.in_proj_weight");
    if (!deformable_ && !detr) return std::nullopt;
    config::Model& model = *out_.config.mutable_model();
    model.set_type(deformable_ ? "deformable_detr" : "detr");
    backbone(*model.mutable_backbone());
    transformer(*model.mutable_transformer());
    heads(model);
    criterion(*out_.config.mutable_criterion());
    return std::move(out_);
  }

 private:
  bool has(const std::string& name) const { return shapes_.contains(name); }
  int64_t size(const std::string& name, int axis) const {
    auto it = shapes_.find(name);
    if (it == shapes_.end() || it->second.rank() <= axis)
      fail_input("{}: no tensor \"{}\" with {} axes, expected one in a {} model", file_.path(), name,
                 axis + 1, deformable_ ? "Deformable DETR" : "DETR");
    return it->second[axis];
  }
  int32_t narrow(int64_t value) const {
    if (value < 0 || value > INT32_MAX)
      fail_input("{}: a size of {} is too large for a model", file_.path(), value);
    return static_cast<int32_t>(value);
  }
  // How many of PREFIX0.SUFFIX, PREFIX1.SUFFIX ... there are.
  int32_t count(const std::string& prefix, const std::string& suffix) const {
    int32_t n = 0;
    while (has(prefix + std::to_string(n) + suffix)) ++n;
    return n;
  }
  template <class T>
  std::optional<T> argument(const std::string& name) const {
    auto it = file_.scalars().find("args." + name);
    if (it == file_.scalars().end()) return std::nullopt;
    const T* value = std::get_if<T>(&it->second);
    return value ? std::optional<T>(*value) : std::nullopt;
  }
  // The file's argument, or a default that is then mentioned.
  template <class T>
  T argument_or(const std::string& name, T otherwise, const std::string& field) {
    if (std::optional<T> value = argument<T>(name)) return *value;
    out_.assumed.push_back(fmt::format("{}: {}", field, otherwise));
    return otherwise;
  }

  void backbone(config::Backbone& b) {
    const std::string body = "backbone.0.body.";
    if (!has(body + "conv1.weight") || !has(body + "layer4.0.conv1.weight"))
      fail_input(
          "{}: the backbone is no ResNet (no \"{}layer4.0.conv1.weight\"), expected --config with its model",
          file_.path(), body);
    std::vector<int32_t> blocks;
    for (int stage = 1; stage <= 4; ++stage)
      blocks.push_back(count(fmt::format("{}layer{}.", body, stage), ".conv1.weight"));
    bool bottleneck = has(body + "layer1.0.conv3.weight");
    int32_t width = narrow(size(body + "conv1.weight", 0)), depth = 0;
    using Blocks = std::vector<int32_t>;
    if (blocks == Blocks{2, 2, 2, 2} && !bottleneck) depth = 18;
    if (blocks == Blocks{3, 4, 6, 3}) depth = bottleneck ? 50 : 34;
    if (blocks == Blocks{3, 4, 23, 3} && bottleneck) depth = 101;
    if (depth > 0 && width == 64) {
      b.set_depth(depth);
    } else {
      for (int32_t n : blocks) b.add_blocks(n);
      b.set_width(width);
      b.set_bottleneck(bottleneck);
    }
    if (!given_.model().backbone().has_dilation())
      b.set_dilation(argument_or("dilation", false, "model.backbone.dilation"));
  }

  void transformer(config::Transformer& t) {
    const std::string encoder = "transformer.encoder.layers.", decoder = "transformer.decoder.layers.";
    const int64_t dim = size(decoder + "0.norm1.weight", 0);
    t.set_hidden_dim(narrow(dim));
    const config::Transformer& given = given_.model().transformer();
    t.set_heads(given.has_heads() ? given.heads()
                                  : narrow(argument_or<int64_t>("nheads", 8, "model.transformer.heads")));
    t.set_encoder_layers(count(encoder, ".linear1.weight"));
    t.set_decoder_layers(count(decoder, ".linear1.weight"));
    t.set_ffn_dim(narrow(size(decoder + "0.linear1.weight", 0)));
    if (auto dropout = argument<double>("dropout")) t.set_dropout(*dropout);
    if (auto aux = argument<bool>("aux_loss")) t.set_aux_loss(*aux);
    if (deformable_) {
      deformable(t, encoder, decoder);
    } else {
      t.set_levels(1);
      t.set_pre_norm(has("transformer.encoder.norm.weight"));
      t.set_position_encoding(has("backbone.1.row_embed.weight") ? "learned" : "sine");
    }
    if (t.two_stage()) {
      if (!given.has_queries())
        t.set_queries(narrow(argument_or<int64_t>("num_queries", 300, "model.transformer.queries")));
    } else {
      t.set_queries(narrow(size("query_embed.weight", 0)));
    }
  }

  void deformable(config::Transformer& t, const std::string& encoder, const std::string& decoder) {
    const int64_t levels = size("transformer.level_embed", 0);
    t.set_levels(narrow(levels));
    auto points = [&](const std::string& attention) {
      int64_t rows = size(attention + ".sampling_offsets.weight", 0),
              group = 2 * t.heads() * std::max<int64_t>(levels, 1);
      if (group <= 0 || rows % group != 0)
        fail_input(
            "{}: \"{}.sampling_offsets.weight\" has {} rows, expected a multiple of 2 x {} heads x {} levels "
            "(--set model.transformer.heads=...?)",
            file_.path(), attention, rows, t.heads(), levels);
      return narrow(rows / group);
    };
    if (t.encoder_layers() > 0) t.set_encoder_points(points(encoder + "0.self_attn"));
    t.set_decoder_points(points(decoder + "0.cross_attn"));
    t.set_two_stage(has("transformer.enc_output.weight"));
    t.set_box_refine(t.two_stage() || has("transformer.decoder.bbox_embed.0.layers.0.weight") ||
                     heads_differ());
    // Projections of 1x1 read the backbone's last stages, those of 3x3 make further levels.
    int64_t from_backbone = 0;
    while (has(fmt::format("input_proj.{}.0.weight", from_backbone)) &&
           size(fmt::format("input_proj.{}.0.weight", from_backbone), 3) == 1)
      ++from_backbone;
    if (from_backbone != (levels == 1 ? 1 : 3))
      for (int64_t stage = 5 - from_backbone; stage <= 4; ++stage)
        out_.config.mutable_model()->mutable_backbone()->add_outputs(narrow(stage));
  }

  // Without refinement all layers have one head, which a file may hold under each of its names.
  bool heads_differ() const {
    const char *first = "bbox_embed.0.layers.0.weight", *second = "bbox_embed.1.layers.0.weight";
    if (!has(first) || !has(second)) return false;
    Tensor a = read_weight(file_, *by_name_.at(first)), b = read_weight(file_, *by_name_.at(second));
    return a.shape() != b.shape() ||
           a.to(DType::kF64).to_vector<double>() != b.to(DType::kF64).to_vector<double>();
  }

  void heads(config::Model& model) {
    for (const char* name :
         {"class_embed.0.weight", "transformer.decoder.class_embed.0.weight", "class_embed.weight"})
      if (has(name)) return model.set_num_classes(narrow(size(name, 0) - (deformable_ ? 0 : 1)));
    fail_input("{}: no class head (\"class_embed.0.weight\")", file_.path());
  }

  // The official losses; a checkpoint of them can then be trained on.
  void criterion(config::Criterion& c) {
    c.set_class_loss(deformable_ ? config::focal : config::softmax);
    c.set_class_weight(deformable_ ? 2 : 1);
    c.set_cost_class(deformable_ ? 2 : 1);
    if (auto weight = argument<double>("eos_coef")) c.set_no_object_weight(*weight);
    if (auto alpha = argument<double>("focal_alpha")) c.set_focal_alpha(*alpha);
  }

  const WeightsFile& file_;
  const Config& given_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, const NamedWeight*> by_name_;
  bool deformable_ = false;
  InferredConfig out_;
};

}  // namespace

std::optional<InferredConfig> infer_detector_config(const WeightsFile& file, const OfficialWeights& weights,
                                                    const Config& given) {
  return Inference(file, weights, given).run();
}

}  // namespace saccade
