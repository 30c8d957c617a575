// DETR (Carion et al. 2020): backbone, one feature map, transformer, class and box heads that all decoder
// layers share. Parameter names, counts and initialisation are the official ones.
#include "layers/conv2d.h"
#include "layers/mlp.h"
#include "layers/position_encoding.h"
#include "models/backbone.h"
#include "models/build.h"
#include "models/common/deformable_tokens.h"
#include "models/common/detr_weights.h"
#include "models/common/token_maps.h"
#include "models/common/transformer.h"
#include "models/detection/set_detector.h"

namespace saccade {
namespace {

struct DetrOptions : SetDetectorOptions {
  TransformerOptions transformer;
  double position_temperature = kSineTemperature;
  bool learned_position = false;  // row and column embeddings instead of the sine encoding
  bool position_in_tokens = false;
};

constexpr double kSmallestSide = 0.02;  // least side of a box by which positions are divided

// DETR's decoder with boxes as queries (Liu et al. 2022, DAB-DETR). Every layer attends around the boxes of
// the one before: a query's position is computed from its box. The cross-attention compares it with the
// positions of the tokens separately from their contents (conditional_attention), over a wider area for a
// larger box. The heads, shared by all layers, correct the box. Unlike in the paper, no gradient flows
// through the first layer's positions to the anchors.
class AnchorDecoder : public TransformerDecoder {
 public:
  // temperature: of the sines (20 in the paper)
  AnchorDecoder(const TransformerOptions& o, double temperature)
      : TransformerDecoder(o, false), dim_(o.dim), temperature_(temperature) {
    ref_point_head_ = make_child<Mlp>("ref_point_head", std::vector{2 * o.dim, o.dim, o.dim});
    // Both start with a constant, so that the first layers attend around the boxes.
    auto begin_with = [](double value) {
      return MlpOptions{
          .last = LinearOptions{.weight_init = init::constant(0), .bias_init = init::constant(value)}};
    };
    query_scale_ = make_child<Mlp>("query_scale", std::vector{o.dim, o.dim, o.dim}, begin_with(1));
    ref_anchor_head_ =
        make_child<Mlp>("ref_anchor_head", std::vector{o.dim, o.dim, int64_t{2}}, begin_with(0));
  }

  // boxes [N, Q, 4] as (cx, cy, w, h), constants. memory: as for TransformerDecoderLayer, with key_position
  // [1 or N, S, C], the sines of the cells' centres. -> [N, Q, C]
  Var run_layer(int64_t i, const Var& target, const Tensor& boxes, AttentionInput memory,
                const QueryGroups& groups) {
    const Var sines = Var(sine_box_encoding(boxes, dim_ / 2, temperature_));  // x, y, w, h
    memory.query_position = query_position(i, target, boxes, sines);
    return layer(i)(target, ref_point_head_(sines), std::move(memory), groups);
  }

 private:
  // Returns the sines of the centre, y before x as in the tokens' positions, scaled by the content: by a
  // factor for every channel (except in the first layer, where the contents carry no information yet), and
  // for each axis by the size that it looks for, relative to the box's.
  Var query_position(int64_t i, const Var& target, const Tensor& boxes, const Var& sines) const {
    const int64_t half = dim_ / 2;
    Var sides = clamp(slice(Var(boxes), 2, 2, 4), kSmallestSide, 1);
    Var widen = div(sigmoid(ref_anchor_head_(target)), sides);  // x, y
    Var position = concat({mul(slice(sines, 2, half, dim_), slice(widen, 2, 1, 2)),
                           mul(slice(sines, 2, 0, half), slice(widen, 2, 0, 1))},
                          2);
    return i == 0 ? position : mul(position, query_scale_(target));
  }

  int64_t dim_;
  double temperature_;
  Child<Mlp> ref_point_head_, query_scale_, ref_anchor_head_;
};

class DetrTransformer : public Module {
 public:
  explicit DetrTransformer(const DetrOptions& options) {
    const TransformerOptions& o = options.transformer;
    encoder = make_child<TransformerEncoder>("encoder", o, "multi_head_attention");
    if (o.anchors)
      decoder = anchor_decoder = make_child<AnchorDecoder>("decoder", o, options.position_temperature);
    else
      decoder = make_child<TransformerDecoder>("decoder", o, false);
  }
  std::string type_name() const override { return "Transformer"; }

  Child<TransformerEncoder> encoder;
  Child<TransformerDecoder> decoder;
  Child<AnchorDecoder> anchor_decoder;  // the same, or null
};

class Detr : public SetDetector {
 public:
  Detr(const DetrOptions& options, std::shared_ptr<Backbone> backbone)
      : SetDetector(options), options_(options), backbone_(std::move(backbone)) {
    const TransformerOptions& o = options.transformer;
    query_embed_ =
        make_child<QueryEmbedding>("", options.queries, o.anchors ? 4 : o.dim, options.extra_query_groups);
    child("backbone.0.body", backbone_);
    if (options.learned_position) position_ = make_child<LearnedPositionEncoding>("backbone.1", o.dim);
    transformer_ = make_child<DetrTransformer>("transformer", options);
    class_embed_ = child("class_embed", o.anchors ? make_class_head(o.dim, logit_columns())
                                                  : std::make_shared<Linear>(o.dim, logit_columns()));
    bbox_embed_ =
        child("bbox_embed", o.anchors ? make_box_head(o.dim, 0)
                                      : std::make_shared<Mlp>(std::vector{o.dim, o.dim, o.dim, int64_t{4}}));
    input_proj_ = make_child<Conv2d>("input_proj", backbone_->channels().back(), o.dim, 1);
    if (o.denoising) {
      label_enc_ = make_child<LabelEmbedding>("label_enc", classes(), o.dim);
      if (!o.anchors)
        ref_point_head_ = make_child<Mlp>("ref_point_head", std::vector{2 * o.dim, o.dim, o.dim});
    }
  }

  SetOutput predict(const DetectorInput& input) override {
    int64_t N = input.images.dim(0), C = options_.transformer.dim;
    Var map = input_proj_(backbone_(input.images).back());
    MapSize level{map.dim(1), map.dim(2)};
    Var tokens = reshape(map, {N, level.cells(), C});
    TokenMaps maps = make_token_maps({level}, input, &constants_);
    Var position =
        position_
            ? position_(level)
            : Var(sine_positions(maps, C, {.temperature = options_.position_temperature}, &constants_)[0]);
    if (options_.position_in_tokens) tokens = add(tokens, position);
    AttentionInput memory{.value = transformer_->encoder(tokens, position, maps),
                          .padding_mask = maps.padding_mask,
                          .levels = maps.levels};
    const DecoderQueries queries = make_queries(input);
    SetOutput output;
    output.query_groups = queries.groups.equal;
    if (options_.transformer.anchors) {
      memory.key = memory.value;
      // Anchors are compared with the centres of the cells.
      const SinePositions centres{.offset = -0.5, .temperature = options_.position_temperature};
      memory.key_position = Var(sine_positions(maps, C, centres, &constants_)[0]);
      decode_anchors(memory, queries, output);
    } else {
      memory.key = add(memory.value, position);
      decode(memory, queries, output);
    }
    return finished(std::move(output));
  }

 private:
  // Makes the learned queries, which are positions or anchors, and puts those of denoising before them.
  DecoderQueries make_queries(const DetectorInput& input) {
    const bool anchors = options_.transformer.anchors;
    const Var embed = query_embed_();
    const Shape shape{input.images.dim(0), embed.dim(0), options_.transformer.dim};
    DecoderQueries q{.target = Var(Tensor::zeros(shape, embed.dtype(), embed.device())),
                     .groups = {.equal = query_embed_->groups(), .mask = {}}};
    (anchors ? q.reference : q.position) = expand(embed, {shape[0], shape[1], embed.dim(1)});
    DenoisingQueries denoising = make_denoising(input, training(), classes(), options_.denoising);
    if (denoising.count() == 0) return q;
    const Var target = label_enc_(denoising);
    Var position, reference;
    if (anchors) {
      reference = inverse_sigmoid(Var(denoising.boxes));
    } else {
      const int64_t half = options_.transformer.dim / 2;
      position =
          ref_point_head_(Var(sine_box_encoding(denoising.boxes, half, options_.position_temperature)));
    }
    prepend(std::move(denoising), target, position, reference, q);
    return q;
  }

  void decode(const AttentionInput& memory, const DecoderQueries& q, SetOutput& output) {
    Vars layers = transformer_->decoder(q.target, q.position, memory, q.groups);
    if (!options_.aux_loss) layers = {layers.back()};
    for (const Var& x : layers) add_layer(output, q.denoising, {class_embed_(x), sigmoid(bbox_embed_(x))});
  }

  void decode_anchors(const AttentionInput& memory, const DecoderQueries& q, SetOutput& output) {
    Var target = q.target, origin = q.reference;
    for (int64_t i = 0; i < options_.transformer.decoder_layers; ++i) {
      target = transformer_->anchor_decoder->run_layer(i, target, sigmoid(origin).value(), memory, q.groups);
      Var x = transformer_->decoder->normalised(target);
      Var box = add(bbox_embed_(x), origin);
      add_layer(output, q.denoising, {class_embed_(x), sigmoid(box)});
      // Each layer's loss trains its own correction; without them, the only loss trains all corrections
      // and the anchors.
      origin = options_.aux_loss ? box.detach() : box;
    }
  }

  DetrOptions options_;
  Child<Backbone> backbone_;
  Child<LearnedPositionEncoding> position_;
  Child<DetrTransformer> transformer_;
  Child<Linear> class_embed_;
  Child<Mlp> bbox_embed_;
  Child<QueryEmbedding> query_embed_;
  Child<Conv2d> input_proj_;
  // Denoising: embeds the content of its queries by class and their position by box.
  Child<LabelEmbedding> label_enc_;
  Child<Mlp> ref_point_head_;
  ConstantKeeper constants_;
};

std::shared_ptr<Module> build_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("detr");
  DetrOptions options{.transformer = read_transformer_options(t),
                      .position_temperature = own.get_float("position_temperature"),
                      .learned_position = own.get_string("position_encoding") == "learned",
                      .position_in_tokens = own.get_bool("position_in_tokens")};
  options.read(t, criterion, classes);
  options.transformer.pre_norm = own.get_bool("pre_norm");
  options.transformer.denoising = options.denoising.queries > 0;
  options.transformer.anchors = own.get_bool("anchor_queries");
  t.finish("DETR");
  own.finish("DETR");
  auto backbone = build_backbone(model.get_section("backbone"), {4});
  return std::make_shared<Detr>(options, std::move(backbone));
}

bool infer_detr(Inference& in) {
  if (!in.has("class_embed.weight") || !in.has("transformer.decoder.layers.0.multihead_attn.in_proj_weight"))
    return false;
  const std::string t = "model.transformer.", own = "model.detr.";
  infer_backbone(in, kOfficialBackbone);
  infer_transformer(in);
  in.set(t + "levels", 1);
  in.set(own + "pre_norm", in.has("transformer.encoder.norm.weight"));
  in.set(own + "position_encoding", in.has("backbone.1.row_embed.weight") ? "learned" : "sine");
  in.set(t + "queries", in.size("query_embed.weight", 0));
  in.set(own + "anchor_queries", in.has("transformer.decoder.ref_anchor_head.layers.0.weight"));
  infer_classes(in, {"class_embed.weight"}, 1);
  infer_criterion(in, "softmax", 1);
  return true;
}

[[maybe_unused]] const bool detr_registered =
    model_types().add({.name = "detr",
                       .summary = "DETR (Carion et al. 2020)",
                       .task = "detection",
                       .build = build_detr,
                       .parts = {"transformer", "detr"},
                       .infer = infer_detr,
                       .preset = "model { transformer { ffn_dim: 2048 queries: 100 levels: 1 } }"
                                 "criterion { class_loss: softmax }"});

const WeightRules kDetrNames = weight_rules(
    {
        {"model.(position_embedding|backbone.position_embedding).row_embeddings.", "backbone.1.row_embed."},
        {"model.(position_embedding|backbone.position_embedding).column_embeddings.",
         "backbone.1.col_embed."},
        {"model.input_projection.", "input_proj."},
        {"model.encoder.layers.*.self_attn.[q|k|v]_proj.", "transformer.encoder.layers.*.self_attn.in_proj_"},
        {"model.encoder.layers.*.self_attn.(out_proj|o_proj).",
         "transformer.encoder.layers.*.self_attn.out_proj."},
        {"model.decoder.layers.*.self_attn_layer_norm.", "transformer.decoder.layers.*.norm1."},
        {"model.decoder.layers.*.encoder_attn.[q|k|v]_proj.",
         "transformer.decoder.layers.*.multihead_attn.in_proj_"},
        {"model.decoder.layers.*.encoder_attn.(out_proj|o_proj).",
         "transformer.decoder.layers.*.multihead_attn.out_proj."},
        {"model.decoder.layers.*.encoder_attn_layer_norm.", "transformer.decoder.layers.*.norm2."},
        {"model.*.layernorm.", "transformer.*.norm."},
        {"class_labels_classifier.", "class_embed."},
        {"bbox_predictor.", "bbox_embed."},
    },
    detr_rules());

[[maybe_unused]] const bool hugging_face_detr =
    weight_namings().add({.name = "Hugging Face DETR",
                          .markers = {"class_labels_classifier.weight"},
                          .rules = kDetrNames,
                          .scope = WeightNaming::kDetector});

}  // namespace
}  // namespace saccade
