#include "models/deformable_detr/deformable_detr.h"

#include "layers/position_encoding.h"
#include "models/build.h"
#include "models/common/detr_weights.h"

namespace saccade {
namespace {

// Deformable DETR evaluates the sine encoding at cell centres.
constexpr double kPositionOffset = -0.5;

}  // namespace

class DeformableDetr::Transformer : public Module {
 public:
  explicit Transformer(const DeformableDetrOptions& options) {
    const TransformerOptions& o = options.transformer;
    encoder = make_child<TransformerEncoder>("encoder", o, "ms_deform_attn");
    decoder = make_child<TransformerDecoder>("decoder", o, true);
    level_embed = param("level_embed", {o.levels, o.dim}, init::normal(0, 1));
    LinearOptions xavier{.weight_init = init::xavier_uniform()};
    if (options.two_stage) {
      enc_output = make_child<Linear>("enc_output", o.dim, o.dim, xavier);
      enc_output_norm = make_child<LayerNorm>("enc_output_norm", o.dim);
      pos_trans = make_child<Linear>("pos_trans", 2 * o.dim, 2 * o.dim, xavier);
      pos_trans_norm = make_child<LayerNorm>("pos_trans_norm", 2 * o.dim);
    } else {
      reference_points = make_child<Linear>(
          "reference_points", o.dim, 2,
          LinearOptions{.weight_init = init::xavier_uniform(), .bias_init = init::constant(0)});
    }
  }

  Child<TransformerEncoder> encoder;
  Child<TransformerDecoder> decoder;
  Var level_embed;  // [L, C]
  Child<Linear> enc_output, pos_trans, reference_points;
  Child<LayerNorm> enc_output_norm, pos_trans_norm;
};

DeformableDetr::DeformableDetr(const DeformableDetrOptions& options, std::shared_ptr<Backbone> backbone)
    : SetDetector(options), options_(options), backbone_(std::move(backbone)) {
  const TransformerOptions& o = options.transformer;
  if (!options.two_stage)
    query_embed_ = make_child<QueryEmbedding>("", options.queries, 2 * o.dim, options.extra_query_groups);
  child("backbone.0.body", backbone_);
  input_proj_ = make_child<InputProjections>("input_proj", backbone_->channels(), o.levels, o.dim);
  transformer_ = make_child<Transformer>("transformer", options);

  // Without refinement all layers share one head; otherwise each has its own, and so have the proposals of
  // the first stage.
  int64_t heads = o.decoder_layers + (options.two_stage ? 1 : 0);
  for (int64_t i = 0; i < heads; ++i) {
    bool fresh = options.box_refine || i == 0;
    class_embed_.push_back(fresh ? make_class_head(o.dim, logit_columns()) : class_embed_[0]);
    // Initial boxes: wh = sigmoid(-2) if the head that first predicts a size starts from a point.
    bbox_embed_.push_back(
        fresh ? make_box_head(o.dim, options.two_stage || (options.box_refine && i > 0) ? 0 : -2)
              : bbox_embed_[0]);
  }
  for (int64_t i = 0; i < heads; ++i)
    child(fmt::format("class_embed.{}", i), class_embed_[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < heads; ++i)
    child(fmt::format("bbox_embed.{}", i), bbox_embed_[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < heads; ++i) {
    size_t k = static_cast<size_t>(i);
    if (options.box_refine)
      transformer_->decoder->add_head_names(fmt::format("bbox_embed.{}", i), bbox_embed_[k]);
    if (options.two_stage)
      transformer_->decoder->add_head_names(fmt::format("class_embed.{}", i), class_embed_[k]);
  }
  if (o.denoising) {
    label_enc_ = make_child<LabelEmbedding>("label_enc", classes(), o.dim);
    if (!options.two_stage)
      ref_point_head_ = make_child<Mlp>("ref_point_head", std::vector{2 * o.dim, o.dim, o.dim});
  }
}

// The official heads are clones: all start with the first one's weights (except the size bias).
void DeformableDetr::after_initialize(uint64_t, const std::string&) {
  for (size_t i = 1; i < class_embed_.size(); ++i) {
    if (class_embed_[i] == class_embed_[0]) continue;
    copy_tensors(*class_embed_[0], *class_embed_[i]);
    copy_tensors(*bbox_embed_[0], *bbox_embed_[i], 1);
  }
}

SetOutput DeformableDetr::predict(const DetectorInput& input) {
  const LevelTokens tokens =
      encode_levels(input_proj_(backbone_(input.images)), input, *transformer_->encoder,
                    transformer_->level_embed, {.offset = kPositionOffset}, constants_);

  SetOutput output;
  DecoderQueries queries;
  if (options_.two_stage) {
    queries = proposed_queries(tokens.memory, make_proposals(tokens.maps), output.encoder);
  } else {
    queries = learned_queries(input.images.dim(0));
  }
  prepend(make_denoising(input, training(), classes(), options_.denoising), queries);
  decode(queries, tokens, input.record_sampling, output);
  return finished(std::move(output));
}

DecoderQueries DeformableDetr::learned_queries(int64_t batch) {
  int64_t C = options_.transformer.dim;
  DecoderQueries q;
  Var embed = query_embed_();
  q.groups.equal = query_embed_->groups();
  int64_t Q = embed.dim(0);
  Var position = slice(embed, 1, 0, C);
  Var reference = sigmoid(transformer_->reference_points(position));
  q.position = expand(reshape(position, {1, Q, C}), {batch, Q, C});
  q.target = expand(reshape(slice(embed, 1, C, 2 * C), {1, Q, C}), {batch, Q, C});
  q.reference = expand(reshape(reference, {1, Q, 2}), {batch, Q, 2});
  return q;
}

DecoderQueries DeformableDetr::proposed_queries(const Var& memory, const Proposals& proposals,
                                                LayerPrediction& predictions) {
  const int64_t C = memory.dim(2);
  Var tokens = masked_fill(memory, proposals.invalid.unsqueeze(-1), 0);
  tokens = transformer_->enc_output_norm(transformer_->enc_output(tokens));
  predictions.logits = class_embed_.back()(tokens);
  Var box_logits = add(bbox_embed_.back()(tokens), Var(proposals.logits));
  predictions.boxes = sigmoid(box_logits);

  // The tokens are chosen only by the score of the first class.
  const Tensor indices = best_tokens(predictions.logits.value(), 1, options_.queries);
  DecoderQueries q;
  q.reference = sigmoid(gather_rows(box_logits.detach(), indices));
  Var embed = encode_boxes(q.reference.value());
  q.position = slice(embed, 2, 0, C);
  q.target = slice(embed, 2, C, 2 * C);
  return q;
}

Var DeformableDetr::encode_boxes(const Tensor& boxes) const {
  Var encoding = Var(sine_box_encoding(boxes, options_.transformer.dim / 2));
  return transformer_->pos_trans_norm(transformer_->pos_trans(encoding));
}

void DeformableDetr::prepend(DenoisingQueries denoising, DecoderQueries& q) const {
  if (denoising.count() == 0) return;
  const int64_t C = options_.transformer.dim;
  Var boxes = Var(denoising.boxes);
  Var position = options_.two_stage ? slice(encode_boxes(denoising.boxes), 2, 0, C)
                                    : ref_point_head_(Var(sine_box_encoding(denoising.boxes, C / 2)));
  const Var target = label_enc_(denoising);
  // Learned queries start from a point.
  saccade::prepend(std::move(denoising), target, position, slice(boxes, 2, 0, q.reference.dim(2)), q);
}

void DeformableDetr::decode(const DecoderQueries& q, const LevelTokens& tokens, bool record,
                            SetOutput& output) {
  Var target = q.target, reference = q.reference;
  output.query_groups = q.groups.equal;
  Var in_levels = references_in_levels(reference, tokens.maps);
  Vars targets;  // of the layers that share their heads
  for (int64_t i = 0; i < options_.transformer.decoder_layers; ++i) {
    target = transformer_->decoder->layer(i)(target, q.position, attend_to(tokens, in_levels, record, output),
                                             q.groups);
    if (options_.box_refine) {
      const LayerPrediction prediction = predict(static_cast<size_t>(i), target, reference);
      reference = prediction.boxes.detach();
      if (i + 1 < options_.transformer.decoder_layers)
        in_levels = references_in_levels(reference, tokens.maps);
      add_layer(output, q.denoising, prediction);
    } else if (options_.aux_loss || i + 1 == options_.transformer.decoder_layers) {
      targets.push_back(reshape(target, {1, target.dim(0), target.dim(1), target.dim(2)}));
    }
  }
  if (!targets.empty()) add_layers(output, q.denoising, predict(0, concat(targets, 0), reference));
}

LayerPrediction DeformableDetr::predict(size_t head, const Var& target, const Var& reference) const {
  LayerPrediction prediction{.logits = class_embed_[head](target), .boxes = {}};
  const Var offset = bbox_embed_[head](target), origin = inverse_sigmoid(reference);
  if (reference.dim(2) == 4) {  // (x, y, w, h), else (x, y)
    prediction.boxes = sigmoid(add(offset, origin));
  } else {
    Var xy = add(slice(offset, -1, 0, 2), origin);
    prediction.boxes = sigmoid(concat({xy, slice(offset, -1, 2, 4)}, -1));
  }
  return prediction;
}

namespace {

std::shared_ptr<Module> build_deformable_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("deformable_detr");
  DeformableDetrOptions options{.transformer = read_transformer_options(t),
                                .box_refine = own.get_bool("box_refine"),
                                .two_stage = own.get_bool("two_stage")};
  options.read(t, criterion, classes);
  options.transformer.denoising = options.denoising.queries > 0;
  const int64_t levels = options.transformer.levels = t.get_int("levels");
  t.finish("Deformable DETR");
  own.finish("Deformable DETR");
  if (options.two_stage && !options.box_refine)
    fail_input("{}.two_stage: needs box_refine, as in the official model", own.path());
  if (options.two_stage && options.extra_query_groups > 0)
    fail_input("{}.extra_query_groups: needs learned queries, not two_stage", t.path());
  auto backbone = build_backbone_of_levels(
      model, levels, levels == 1 ? std::vector<int64_t>{4} : std::vector<int64_t>{2, 3, 4});
  return std::make_shared<DeformableDetr>(options, std::move(backbone));
}

// In the official decoder, norm1 belongs to the cross-attention and norm2 to the self-attention.
const WeightRules kDeformableDetrNames = weight_rules(
    {
        {"model.input_proj.", "input_proj."},
        {"model.level_embed", "transformer.level_embed"},
        {"model.reference_points.", "transformer.reference_points."},
        {"model.enc_output.", "transformer.enc_output."},
        {"model.enc_output_norm.", "transformer.enc_output_norm."},
        {"model.pos_trans.", "transformer.pos_trans."},
        {"model.pos_trans_norm.", "transformer.pos_trans_norm."},
        {"model.encoder.layers.*.self_attn.", "transformer.encoder.layers.*.self_attn."},
        {"model.decoder.layers.*.self_attn_layer_norm.", "transformer.decoder.layers.*.norm2."},
        {"model.decoder.layers.*.encoder_attn.", "transformer.decoder.layers.*.cross_attn."},
        {"model.decoder.layers.*.encoder_attn_layer_norm.", "transformer.decoder.layers.*.norm1."},
        {"model.decoder.bbox_embed.", "transformer.decoder.bbox_embed."},
        {"model.decoder.class_embed.", "transformer.decoder.class_embed."},
    },
    detr_rules());

[[maybe_unused]] const bool hugging_face_deformable_detr =
    weight_namings().add({.name = "Hugging Face Deformable DETR",
                          .markers = {"model.level_embed"},
                          .rules = kDeformableDetrNames,
                          .scope = WeightNaming::kDetector});

// Without refinement all layers share one head, which a file may hold under each of its names.
bool heads_differ(const Inference& in) {
  const char *first = "bbox_embed.0.layers.0.weight", *second = "bbox_embed.1.layers.0.weight";
  if (!in.has(first) || !in.has(second)) return false;
  Tensor a = in.read(first), b = in.read(second);
  return a.shape() != b.shape() ||
         a.to(DType::kF64).to_vector<double>() != b.to(DType::kF64).to_vector<double>();
}

bool infer_deformable_detr(Inference& in) {
  if (!in.has("transformer.level_embed") || in.has(kDinoContent)) return false;
  infer_backbone(in, kOfficialBackbone);
  const std::string t = "model.transformer.", own = "model.deformable_detr.";
  const InferredTransformer transformer = infer_transformer(in);
  const int64_t levels = infer_levels(in, transformer);
  const bool two_stage = in.has("transformer.enc_output.weight");
  in.set(own + "two_stage", two_stage);
  in.set(own + "box_refine",
         two_stage || in.has("transformer.decoder.bbox_embed.0.layers.0.weight") || heads_differ(in));
  if (!two_stage)
    in.set(t + "queries", in.size("query_embed.weight", 0));
  else if (!in.given().get_section("transformer").has("queries"))
    in.set(t + "queries", in.json().path.empty()
                              ? in.argument_or<int64_t>("num_queries", 300, t + "queries")
                              : in.json().find<int64_t>("two_stage_num_proposals").value_or(300));
  infer_projections(in, levels == 1 ? 1 : 3);
  infer_classes(
      in, {"class_embed.0.weight", "transformer.decoder.class_embed.0.weight", "class_embed.weight"}, 0);
  infer_criterion(in, "focal", 2);
  return true;
}

[[maybe_unused]] const bool deformable_detr_registered =
    model_types().add({.name = "deformable_detr",
                       .summary = "Deformable DETR (Zhu et al. 2021)",
                       .task = "detection",
                       .build = build_deformable_detr,
                       .parts = {"transformer", "deformable_detr"},
                       .infer = infer_deformable_detr});

}  // namespace
}  // namespace saccade
