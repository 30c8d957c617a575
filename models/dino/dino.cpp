// DINO (Zhang et al. 2023): Deformable DETR's encoder and decoder layers with mixed query selection
// (references from the encoder's best proposals, learned content), refined boxes that look forward twice, and
// contrastive denoising. Parameter names, counts and initialisation are the official ones.
#include "models/backbone.h"
#include "models/build.h"
#include "models/common/deformable_tokens.h"
#include "models/common/detr_weights.h"
#include "models/detection/set_detector.h"
#include "models/dino/box_decoder.h"

namespace saccade {
namespace {

struct DinoOptions : SetDetectorOptions {
  TransformerOptions transformer;
};

constexpr double kInverseSigmoidEpsilon = 1e-3;  // other models: 1e-5
constexpr SinePositions kDinoPositions{.offset = 0, .temperature = 20};

Var dino_logits(const Var& boxes) { return inverse_sigmoid(boxes, kInverseSigmoidEpsilon); }

class DinoTransformer : public Module {
 public:
  DinoTransformer(const DinoOptions& options, int64_t columns) {
    const TransformerOptions& o = options.transformer;
    encoder = make_child<TransformerEncoder>("encoder", o, "ms_deform_attn");
    decoder = make_child<BoxDecoder>("decoder", o);
    level_embed = param("level_embed", {o.levels, o.dim}, init::normal(0, 1));
    tgt_embed = param("tgt_embed.weight", {options.queries, o.dim}, init::xavier_uniform());
    enc_output =
        make_child<Linear>("enc_output", o.dim, o.dim, LinearOptions{.weight_init = init::xavier_uniform()});
    enc_output_norm = make_child<LayerNorm>("enc_output_norm", o.dim);
    enc_out_class_embed = child("enc_out_class_embed", make_class_head(o.dim, columns));
    enc_out_bbox_embed = child("enc_out_bbox_embed", make_box_head(o.dim, 0));
  }
  std::string type_name() const override { return "Transformer"; }
  Var propose(const Var& tokens) const { return enc_output_norm(enc_output(tokens)); }

  Child<TransformerEncoder> encoder;
  Child<BoxDecoder> decoder;
  Var level_embed, tgt_embed;  // [L, C], [Q, C]
  Child<Linear> enc_output, enc_out_class_embed;
  Child<LayerNorm> enc_output_norm;
  Child<Mlp> enc_out_bbox_embed;
};

class Dino : public SetDetector {
 public:
  Dino(const DinoOptions& options, std::shared_ptr<Backbone> backbone)
      : SetDetector(options), options_(options), backbone_(std::move(backbone)) {
    const TransformerOptions& o = options.transformer;
    child("backbone.0.body", backbone_);
    input_proj_ = make_child<InputProjections>("input_proj", backbone_->channels(), o.levels, o.dim);
    transformer_ = make_child<DinoTransformer>("transformer", options, logit_columns());
    label_enc_ = make_child<LabelEmbedding>("label_enc", classes(), o.dim);
    class_embed_ = make_class_head(o.dim, logit_columns());
    bbox_embed_ = make_box_head(o.dim, 0);
    for (int64_t i = 0; i < o.decoder_layers; ++i) {
      for (auto [name, head] :
           {std::pair<const char*, std::shared_ptr<Module>>{"class_embed.{}", class_embed_},
            {"bbox_embed.{}", bbox_embed_}}) {
        const std::string of_layer = fmt::format(fmt::runtime(name), i);
        child(of_layer, head);
        transformer_->decoder->add_head_names(of_layer, head);
      }
    }
  }

  SetOutput predict(const DetectorInput& input) override {
    const LevelTokens tokens =
        encode_levels(input_proj_(backbone_(input.images)), input, *transformer_->encoder,
                      transformer_->level_embed, kDinoPositions, constants_);
    SetOutput output;
    output.encoder_classes = true;
    DecoderQueries queries{.reference = choose_references(tokens, output.encoder)};
    const Shape shape{queries.reference.dim(0), queries.reference.dim(1), options_.transformer.dim};
    Var content = slice(transformer_->tgt_embed, 0, 0, shape[1]);
    queries.target = expand(reshape(content, {1, shape[1], shape[2]}), shape);
    DenoisingQueries denoising = make_denoising(input, training(), classes(), options_.denoising);
    if (denoising.count() > 0) {
      const Var target = label_enc_(denoising), boxes = sigmoid(dino_logits(Var(denoising.boxes)));
      prepend(std::move(denoising), target, {}, boxes, queries);
    }
    decode(queries, tokens, input.record_sampling, output);
    return output;
  }

 protected:
  // The official heads of the proposals are clones of those of the decoder.
  void after_initialize(uint64_t, const std::string&) override {
    copy_tensors(*class_embed_, *transformer_->enc_out_class_embed);
    copy_tensors(*bbox_embed_, *transformer_->enc_out_bbox_embed);
  }

 private:
  // Returns the boxes [N, Q, 4] of the tokens whose best class has the highest scores, without gradient;
  // `predictions` gets them with gradient.
  Var choose_references(const LevelTokens& encoded, LayerPrediction& predictions) const {
    const DinoTransformer& t = *transformer_;
    const Proposals proposals = make_proposals(encoded.maps);
    Var tokens = masked_fill(encoded.memory, proposals.invalid.unsqueeze(-1), 0);
    Tensor indices;
    {  // All tokens are scored, but only the chosen ones are trained.
      NoGrad no_grad;
      Var logits = t.enc_out_class_embed(t.propose(tokens));
      indices = best_tokens(logits.value(), classes(), options_.queries);
    }
    Var chosen = t.propose(gather_rows(tokens, indices));
    predictions.logits = t.enc_out_class_embed(chosen);
    predictions.boxes =
        sigmoid(add(t.enc_out_bbox_embed(chosen), gather_rows(Var(proposals.logits), indices)));
    return predictions.boxes.detach();
  }

  // queries: with references [N, Q, 4] in [0, 1], and no positions
  void decode(const DecoderQueries& queries, const LevelTokens& tokens, bool record, SetOutput& output) {
    BoxDecoder& decoder = *transformer_->decoder;
    const int64_t layers = options_.transformer.decoder_layers;
    Var target = queries.target, references = queries.reference;
    Var origin = references;  // what a layer's boxes are relative to; its gradient reaches the layer before
    for (int64_t i = 0; i < layers; ++i) {
      const Var position = decoder.position_of(references, tokens.maps);
      target = decoder.layer(i)(
          target, position, attend_to(tokens, references_in_levels(references, tokens.maps), record, output),
          queries.groups);
      const bool last = i + 1 == layers;
      if (last || options_.aux_loss) {
        Var out = decoder.normalised(target);
        add_layer(output, queries.denoising,
                  {class_embed_(out), sigmoid(add(bbox_embed_(out), dino_logits(origin)))});
      }
      if (last) break;
      origin = sigmoid(add(bbox_embed_(target), dino_logits(references)));
      references = origin.detach();
    }
  }

  DinoOptions options_;
  Child<Backbone> backbone_;
  Child<InputProjections> input_proj_;
  Child<DinoTransformer> transformer_;
  Child<LabelEmbedding> label_enc_;
  Child<Linear> class_embed_;  // shared by all layers, like the next one
  Child<Mlp> bbox_embed_;
  ConstantKeeper constants_;
};

std::shared_ptr<Module> build_dino(const Args& model, int64_t classes, const Args& criterion) {
  const Args& t = model.get_section("transformer");
  DinoOptions options{.transformer = read_transformer_options(t)};
  options.read(t, criterion, classes);
  if (options.extra_query_groups > 0)
    fail_input("{}.extra_query_groups: DINO has denoising instead, expected 0", t.path());
  options.transformer.denoising = options.denoising.queries > 0;
  options.denoising.padding_box = 0.5f;
  const int64_t levels = options.transformer.levels = t.get_int("levels");
  t.finish("DINO");
  // 5 scales also use the first stage.
  auto backbone = build_backbone_of_levels(
      model, levels, levels > 4 ? std::vector<int64_t>{1, 2, 3, 4} : std::vector<int64_t>{2, 3, 4});
  return std::make_shared<Dino>(options, std::move(backbone));
}

bool infer_dino(Inference& in) {
  if (!in.has(kDinoContent)) return false;
  infer_backbone(in, kOfficialBackbone);
  const std::string t = "model.transformer.";
  const InferredTransformer transformer = infer_transformer(in);
  const int64_t levels = infer_levels(in, transformer);
  in.set(t + "queries", in.size(kDinoContent, 0));
  infer_projections(in, levels > 4 ? 4 : 3);
  infer_classes(in, {"transformer.enc_out_class_embed.weight"}, 0);
  infer_criterion(in, "focal", 1);
  in.set("criterion.cost_class", 2);
  return true;
}

[[maybe_unused]] const bool dino_registered =
    model_types().add({.name = "dino",
                       .summary = "DINO (Zhang et al. 2023)",
                       .task = "detection",
                       .build = build_dino,
                       .infer = infer_dino,
                       .preset = "model { transformer { ffn_dim: 2048 dropout: 0 queries: 900 "
                                 "denoising { queries: 100 } } }"
                                 "criterion { class_weight: 1 }"});

// In these files the backbone has no `body`.
[[maybe_unused]] const bool official_swin_detector =
    weight_namings().add({.name = "official DINO with a Swin",
                          .markers = {"backbone.0.patch_embed.proj.weight"},
                          .rules = {{"backbone.0.patch_embed.", "backbone.0.body.patch_embed."},
                                    {"backbone.0.layers.", "backbone.0.body.layers."},
                                    {"backbone.0.norm", "backbone.0.body.norm"}},
                          .scope = WeightNaming::kDetector});

}  // namespace
}  // namespace saccade
