// D-FINE (Peng et al. 2024): HGNetv2, RT-DETR's encoder with other blocks,
// and a decoder that refines distributions.
#include "models/build.h"
#include "models/common/detr_weights.h"
#include "models/d_fine/distribution.h"
#include "models/rt_detr/hybrid_detector.h"
#include "models/rt_detr/rt_detr.h"

namespace saccade {
namespace {

constexpr int64_t kBestBins = 4, kHiddenQuality = 64;
constexpr double kMaxPosition = 10;

struct DFineDecoderOptions : HybridDecoderOptions {
  int64_t bins = 32;
  double bin_scale = 4;
};

// Predicts what to add to a box's logits from the sharpness of its distributions, which indicates its quality
// ("LQE", section 3.1).
class QualityHead : public Module {
 public:
  explicit QualityHead(Activation activation) {
    const LinearOptions zero{.weight_init = init::constant(0), .bias_init = init::constant(0)};
    reg_conf_ = make_child<Mlp>("reg_conf", std::vector{kSides * (kBestBins + 1), kHiddenQuality, int64_t{1}},
                                MlpOptions{.activation = activation, .last = zero});
  }
  // probabilities [N, Q, 4, R + 1] -> [N, Q, 1]
  Var forward(const Var& probabilities) const {
    const int64_t N = probabilities.dim(0), Q = probabilities.dim(1), bins = probabilities.dim(3);
    const Var bins_of_sides = reshape(probabilities, {N * Q * kSides, bins, 1});
    const Tensor best = best_tokens(bins_of_sides.value(), 1, kBestBins);
    Var top = reshape(gather_rows(bins_of_sides, best), {N, Q, kSides, kBestBins});
    const int last[] = {-1};
    top = concat({top, mean(top, last, true)}, -1);
    return reg_conf_(reshape(top, {N, Q, kSides * (kBestBins + 1)}));
  }

 private:
  Child<Mlp> reg_conf_;
};

// D-FINE's decoder (Peng et al. 2024): the queries are chosen as in RT-DETR; the first layer predicts a box,
// the reference of the distributions that every layer refines. Parameter names are the official ones.
class DFineDecoder : public HybridDecoder {
 public:
  // channels: of the encoder's maps
  DFineDecoder(int64_t channels, const DFineDecoderOptions& options)
      : HybridDecoder(options), options_(options) {
    const TransformerOptions& o = options.transformer;
    if (channels != o.dim) make_projections(channels);
    up_ = param("up", {1}, init::constant(0.5), false);
    bin_scale_ = param("reg_scale", {1}, init::constant(options.bin_scale), false);
    alias("decoder.up", up_);
    alias("decoder.reg_scale", bin_scale_);
    make_layers();
    const LinearOptions xavier{.weight_init = init::xavier_uniform()};
    query_pos_head_ = make_child<Mlp>("query_pos_head", std::vector{int64_t{4}, 2 * o.dim, o.dim},
                                      MlpOptions{.activation = o.activation, .linear = xavier});
    make_query_selection();
    pre_bbox_head_ = child("pre_bbox_head", make_refining_head(o.dim, 4, o.activation));
    for (int64_t i = 0; i < o.decoder_layers; ++i) {
      add_score_head(i);
      dec_bbox_head_.push_back(child(fmt::format("dec_bbox_head.{}", i),
                                     make_refining_head(o.dim, kSides * (options.bins + 1), o.activation)));
      quality_heads_.push_back(std::make_shared<QualityHead>(o.activation));
      decoder_->add_head_names(fmt::format("lqe_layers.{}", i), quality_heads_.back());
    }
  }

 private:
  void decode(const DecoderQueries& q, const LevelTokens& tokens, bool record, SetOutput& output) override {
    const int64_t N = q.target.dim(0), Q = q.target.dim(1), count = options_.transformer.decoder_layers;
    const BinScale bins = make_bin_scale(up_, bin_scale_, options_.bins);
    Var ratios = Var(tokens.maps.valid_ratios.unsqueeze(1));  // [N, 1, L, 2]
    ratios = concat({ratios, ratios}, -1);
    Var target = q.target, reference = sigmoid(q.reference), first, corners, before;
    for (int64_t i = 0; i < count; ++i) {
      const auto layer = static_cast<size_t>(i);
      const Var position = clamp(query_pos_head_(reference), -kMaxPosition, kMaxPosition);
      target = decoder_->layer(i)(
          target, position, attend_to(tokens, mul(reshape(reference, {N, Q, 1, 4}), ratios), record, output),
          q.groups);
      if (i == 0) {
        const Var box = sigmoid(add(pre_bbox_head_(target), inverse_sigmoid(reference)));
        if (training()) set_first(output, q.denoising, {dec_score_head_[0](target), box});
        first = box.detach();
      }
      // Each layer's logits are added to those of the layer before.
      const Var refined = dec_bbox_head_[layer](i == 0 ? target : add(target, before));
      corners = i == 0 ? refined : add(refined, corners);
      before = target.detach();
      const Var probabilities = side_probabilities(corners), box = boxes_of_sides(probabilities, first, bins);
      if (training() || i + 1 == count)
        add_layer(output, q.denoising,
                  {.logits = add(dec_score_head_[layer](target), quality_heads_[layer](probabilities)),
                   .boxes = box,
                   .sides = {corners, first, bins.values, bins.scale}});
      reference = box.detach();
    }
  }

  DFineDecoderOptions options_;
  Var up_, bin_scale_;  // [1] each: constants that the official files have as parameters
  Child<Mlp> query_pos_head_, pre_bbox_head_;
  std::vector<Child<Mlp>> dec_bbox_head_;
  std::vector<Child<QualityHead>> quality_heads_;
};

class DFine : public HybridDetector {
 public:
  DFine(const HybridOptions& options, const DFineDecoderOptions& decoder, std::shared_ptr<Backbone> backbone)
      : HybridDetector(options, std::move(backbone)) {
    make_decoder<DFineDecoder>(decoder);
  }
};

std::shared_ptr<Module> build_d_fine(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("d_fine");
  HybridOptions options;
  DFineDecoderOptions decoder;
  read_hybrid(model, own, classes, criterion, "D-FINE", options, decoder);
  options.criterion.shared_boxes = true;
  options.criterion.terms.push_back({"fgl", own.get_float("fgl_weight")});
  options.criterion.terms.push_back({"ddf", own.get_float("ddf_weight")});
  options.encoder.elan_blocks = own.get_int("fusion_blocks");
  decoder.transformer.gated = true;
  decoder.transformer.decoder_cross_attention.set("projections", false);
  decoder.bins = own.get_int("bins");
  decoder.bin_scale = own.get_float("bin_scale");
  if (decoder.bins % 2 != 0) fail_input("{}.bins: {}, expected an even number", own.path(), decoder.bins);
  t.finish("D-FINE");
  own.finish("D-FINE");
  return std::make_shared<DFine>(options, decoder, build_hybrid_backbone(model, decoder.transformer.levels));
}

// Adds a convolution with its norm and learned affine step, under these names there and here.
void add_conv(WeightRules& rules, const std::string& from, const std::string& to) {
  rules.push_back({from + "convolution.", to + "conv."});
  rules.push_back({from + "normalization.", to + "bn."});
  rules.push_back({from + "lab.", to + "lab."});
}

WeightRules hugging_face_names() {
  const std::string backbone = "model.backbone.model.", stage = backbone + "encoder.stages.*.",
                    ours = "backbone.stages.*.";
  WeightRules rules;
  add_conv(rules, backbone + "embedder.*.", "backbone.stem.*.");
  add_conv(rules, stage + "downsample.", ours + "downsample.");
  add_conv(rules, stage + "blocks.*.*.*.", ours + "blocks.*.*.*.");      // layers and aggregation
  add_conv(rules, stage + "blocks.*.*.*.*.", ours + "blocks.*.*.*.*.");  // light layers
  const std::pair<const char*, const char*> parts[] = {{"conv1.", "cv1."},   {"csp_rep1.", "cv2.0."},
                                                       {"conv2.", "cv2.1."}, {"csp_rep2.", "cv3.0."},
                                                       {"conv3.", "cv3.1."}, {"conv4.", "cv4."}};
  for (const std::string block : {"encoder.fpn_blocks.*.", "encoder.pan_blocks.*."})
    for (const auto& [from, to] : parts) rules.push_back({"model." + block + from, block + to});
  rules.push_back({"model.encoder.downsample_convs.*.conv1.", "encoder.downsample_convs.*.0.cv1."});
  rules.push_back({"model.encoder.downsample_convs.*.conv2.", "encoder.downsample_convs.*.0.cv2."});
  for (const char* name : {"gateway.", "cross_attn."}) {
    const std::string there = std::string(name) == "cross_attn." ? "encoder_attn." : name;
    rules.push_back({"model.decoder.layers.*." + there, std::string("decoder.decoder.layers.*.") + name});
  }
  rules.push_back({"model.decoder.lqe_layers.", "decoder.decoder.lqe_layers."});
  for (const char* name : {"pre_bbox_head.", "up", "reg_scale"})
    rules.push_back({std::string("model.decoder.") + name, std::string("decoder.") + name});
  // Names that version 5 of transformers uses in memory.
  for (const char* number : {"0.", "1."}) {
    const std::string to = number[0] == '0' ? "linear1." : "linear2.";
    rules.push_back({std::string("model.encoder.aifi.*.layers.*.mlp.layers.") + number,
                     "encoder.encoder.*.layers.*." + to});
    rules.push_back(
        {std::string("model.decoder.layers.*.mlp.layers.") + number, "decoder.decoder.layers.*." + to});
  }
  const WeightRules& shared = hugging_face_rt_detr_names();
  rules.insert(rules.end(), shared.begin(), shared.end());
  return rules;
}

constexpr const char *kRtDetrV4 = "official RT-DETRv4", *kFeatureProjector = "encoder.feature_projector.";
constexpr const char* kQualityHead = "decoder.lqe_layers.0.reg_conf.layers.0.weight";

[[maybe_unused]] const bool hugging_face_d_fine =
    weight_namings().add({.name = "Hugging Face D-FINE",
                          .markers = {std::string("model.") + kQualityHead},
                          .rules = hugging_face_names(),
                          .scope = WeightNaming::kDetector,
                          .has_copies = true});

// D-FINE with SiLU, trained to match another network's features through a layer that is no longer used.
[[maybe_unused]] const bool official_rt_detr_v4 = weight_namings().add({.name = kRtDetrV4,
                                                                        .markers = {kFeatureProjector},
                                                                        .rules = {},
                                                                        .scope = WeightNaming::kDetector,
                                                                        .unused = {kFeatureProjector}});

bool infer_d_fine(Inference& in) {
  if (!in.has(std::string("decoder.") + kQualityHead)) return false;
  const std::string t = "model.transformer.", own = "model.d_fine.", csp = "encoder.fpn_blocks.0.cv2.0.";
  const InferredHybrid found = infer_hybrid(in, own);
  if (found.levels == 2) in.set("model.backbone.outputs", std::vector<int64_t>{3, 4});
  const int64_t points =
      in.size("decoder.decoder.layers.0.cross_attn.attention_weights.weight", 0) / found.heads;
  // In all published models the second of three levels has as many points as the others together,
  // and two levels have equally many.
  if (found.levels == 3)
    in.set(t + "decoder_cross_attention.arg.level_points",
           std::vector<int64_t>{points / 4, points / 2, points / 4});
  else
    in.set(t + "decoder_points", points / found.levels);
  // The expansion follows from a channel count that was rounded down twice.
  in.set(own + "hybrid_encoder.expansion",
         static_cast<double>(2 * in.size(csp + "conv1.conv.weight", 0)) / static_cast<double>(found.dim));
  in.set(own + "fusion_blocks", in.count(csp + "bottlenecks.", ".conv1.conv.weight"));
  in.set(own + "bins", in.size("decoder.dec_bbox_head.0.layers.2.weight", 0) / 4 - 1);
  // DEIM's activation leaves no trace in its weights.
  if (!in.given().get_section("d_fine").has("decoder_activation")) {
    const auto activation = in.json().find<std::string>("decoder_activation_function");
    if (activation)
      in.set(own + "decoder_activation", *activation);
    else if (in.naming() == kRtDetrV4)
      in.set(own + "decoder_activation", "silu");
    else
      in.assumed.push_back(own + "decoder_activation: relu");
  }
  in.expect_in_json<std::string>("decoder_method", "default");
  in.expect_in_json<double>("decoder_offset_scale", 0.5);
  return true;
}

[[maybe_unused]] const bool d_fine_registered =
    model_types().add({.name = "d_fine",
                       .summary = "D-FINE (Peng et al. 2024)",
                       .task = "detection",
                       .build = build_d_fine,
                       .parts = {"transformer", "d_fine"},
                       .infer = infer_d_fine,
                       .preset = "model { transformer { encoder_layers: 1 dropout: 0 levels: 3 } }"
                                 "criterion { class_loss: varifocal }"});

}  // namespace
}  // namespace saccade
