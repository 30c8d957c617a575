#include "models/deformable_detr/deformable_detr.h"

#include <cmath>
#include <numeric>

#include "core/kernels/top_k/top_k.h"
#include "layers/module_scope.h"
#include "layers/position_encoding.h"
#include "models/build.h"

namespace saccade {
namespace {

// The class bias with which every score starts at 0.01 (Lin et al. 2017).
const double kClassBias = -std::log((1 - 0.01) / 0.01);
constexpr int64_t kNormGroups = 32;
// Deformable DETR puts the sine encoding on cell centres.
constexpr double kPositionOffset = -0.5;

}  // namespace

// One level's 1x1 or strided 3x3 convolution and group norm: `input_proj.{l}.0` and `.1`.
class DeformableDetr::InputProjection : public Module {
 public:
  InputProjection(int64_t in, int64_t dim, int64_t kernel) {
    Conv2dOptions options{.stride = kernel == 1 ? 1 : 2, .padding = kernel / 2};
    conv_ =
        make_child<Conv2d>("0", in, dim, kernel, options,
                           Conv2dInit{.weight = init::xavier_uniform(), .bias_values = init::constant(0)});
    norm_ = make_child<GroupNorm>("1", std::gcd(kNormGroups, dim), dim);
  }
  Var forward(const Var& x) const { return norm_->forward(conv_->forward(x)); }
  std::string type_name() const override { return "InputProjection"; }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<GroupNorm> norm_;
};

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
  std::string type_name() const override { return "Transformer"; }

  std::shared_ptr<TransformerEncoder> encoder;
  std::shared_ptr<TransformerDecoder> decoder;
  Var level_embed;  // [L, C]
  std::shared_ptr<Linear> enc_output, pos_trans, reference_points;
  std::shared_ptr<LayerNorm> enc_output_norm, pos_trans_norm;
};

DeformableDetr::DeformableDetr(const DeformableDetrOptions& options, std::shared_ptr<Backbone> backbone)
    : SetDetector(options), options_(options), backbone_(std::move(backbone)) {
  const TransformerOptions& o = options.transformer;
  if (!options.two_stage)
    query_embed_ = make_child<QueryEmbedding>("", options.queries, 2 * o.dim, options.extra_query_groups);
  child("backbone.0.body", backbone_);
  std::vector<int64_t> channels = backbone_->channels();
  int64_t maps = static_cast<int64_t>(channels.size());
  SACCADE_CHECK(o.levels >= maps, "[detector] {} levels for {} backbone outputs", o.levels, maps);
  for (int64_t l = 0; l < o.levels; ++l) {
    // The first extra level comes from the backbone's last map, the next ones from the level before.
    int64_t in = l < maps ? channels[static_cast<size_t>(l)] : l == maps ? channels.back() : o.dim;
    input_proj_.push_back(
        make_child<InputProjection>(fmt::format("input_proj.{}", l), in, o.dim, l < maps ? 1 : 3));
  }
  transformer_ = make_child<Transformer>("transformer", options);

  // One head for all layers without refinement; otherwise one each, and one for the proposals of the first
  // stage.
  int64_t heads = o.decoder_layers + (options.two_stage ? 1 : 0);
  for (int64_t i = 0; i < heads; ++i) {
    bool fresh = options.box_refine || i == 0;
    class_embed_.push_back(
        fresh ? std::make_shared<Linear>(o.dim, logit_columns(),
                                         LinearOptions{.bias_init = init::constant(kClassBias)})
              : class_embed_[0]);
    // Initial boxes: wh = sigmoid(-2) where the head that first predicts a size starts from a point.
    float size_bias = options.two_stage || (options.box_refine && i > 0) ? 0.f : -2.f;
    MlpOptions box{.last = LinearOptions{.weight_init = init::constant(0),
                                         .bias_init = init::values({0, 0, size_bias, size_bias})}};
    bbox_embed_.push_back(fresh ? std::make_shared<Mlp>(std::vector{o.dim, o.dim, o.dim, int64_t{4}}, box)
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

// The official heads are clones: all start with the first one's weights (but for the size bias).
void DeformableDetr::after_initialize(uint64_t, const std::string&) {
  auto copy_weights = [](const Module& from, Module& to, bool with_last_bias) {
    auto source = from.named_tensors(), target = to.named_tensors();
    for (size_t i = 0; i < source.size(); ++i)
      if (with_last_bias || i + 1 < source.size()) target[i].var.value().copy_from(source[i].var.value());
  };
  for (size_t i = 1; i < class_embed_.size(); ++i) {
    if (class_embed_[i] == class_embed_[0]) continue;
    copy_weights(*class_embed_[0], *class_embed_[i], true);
    copy_weights(*bbox_embed_[0], *bbox_embed_[i], false);
  }
}

DetectorOutput DeformableDetr::forward(const DetectorInput& input) {
  ModuleScope scope(*this);
  const TransformerOptions& o = options_.transformer;
  SACCADE_CHECK(input.images.rank() == 4 && input.images.dim(3) == 3,
                "[detector] images of shape {}, expected [N, H, W, 3]", input.images.shape().to_string());
  int64_t N = input.images.dim(0);
  std::vector<Var> features = backbone_->forward(input.images);
  std::vector<Var> projected;
  for (size_t l = 0; l < input_proj_.size(); ++l) {
    const Var& source = l < features.size()    ? features[l]
                        : l == features.size() ? features.back()
                                               : projected.back();
    projected.push_back(input_proj_[l]->forward(source));
  }

  FeatureLevels levels;
  Vars tokens, positions;
  for (const Var& map : projected) {
    levels.push_back({map.dim(1), map.dim(2)});
    tokens.push_back(reshape(map, {N, map.dim(1) * map.dim(2), o.dim}));
  }
  TokenMaps maps = make_token_maps(levels, input);
  for (int64_t l = 0; l < levels.size(); ++l) {
    Tensor sine = sine_position_encoding(maps.valid[static_cast<size_t>(l)], levels[l], o.dim,
                                         kPositionOffset, input.images.device());
    positions.push_back(add(Var(sine), slice(transformer_->level_embed, 0, l, l + 1)));
  }
  // Levels whose samples are all alike have a batch of one; the batch must agree before they are joined.
  int64_t position_batch = 1;
  for (const Var& p : positions) position_batch = std::max(position_batch, p.dim(0));
  for (Var& p : positions)
    if (p.dim(0) != position_batch) p = expand(p, {position_batch, p.dim(1), p.dim(2)});

  Var memory = transformer_->encoder->forward(concat(tokens, 1), concat(positions, 1), maps);

  DetectorOutput output;
  Queries queries;
  if (options_.two_stage) {
    queries = proposed_queries(memory, make_proposals(maps), output.encoder);
  } else {
    queries = learned_queries(N);
  }
  prepend(make_denoising(input, training(), classes(), options_.denoising), queries);
  decode(queries, memory, maps, input.record_sampling, output);
  if (!options_.aux_loss)
    for (auto* all : {&output.layers, &output.denoising.layers})
      if (all->size() > 1) all->erase(all->begin(), all->end() - 1);
  return output;
}

DeformableDetr::Queries DeformableDetr::learned_queries(int64_t batch) {
  int64_t C = options_.transformer.dim;
  Queries q;
  Var embed = query_embed_->forward();
  q.groups.equal = query_embed_->groups();
  int64_t Q = embed.dim(0);
  Var position = slice(embed, 1, 0, C);
  Var reference = sigmoid(transformer_->reference_points->forward(position));
  q.position = expand(reshape(position, {1, Q, C}), {batch, Q, C});
  q.target = expand(reshape(slice(embed, 1, C, 2 * C), {1, Q, C}), {batch, Q, C});
  q.reference = expand(reshape(reference, {1, Q, 2}), {batch, Q, 2});
  return q;
}

DeformableDetr::Queries DeformableDetr::proposed_queries(const Var& memory, const Proposals& proposals,
                                                         LayerPrediction& predictions) {
  int64_t N = memory.dim(0), S = memory.dim(1), C = memory.dim(2), Q = std::min(options_.queries, S);
  Var tokens = masked_fill(memory, proposals.invalid.unsqueeze(-1), 0);
  tokens = transformer_->enc_output_norm->forward(transformer_->enc_output->forward(tokens));
  predictions.logits = class_embed_.back()->forward(tokens);
  Var box_logits = add(bbox_embed_.back()->forward(tokens), Var(proposals.logits));
  predictions.boxes = sigmoid(box_logits);

  // The Q tokens with the highest first-class score, in order of score; ties go to the lower token.
  Tensor scores = predictions.logits.value().slice(-1, 0, 1).to(DType::kF32).contiguous().reshape({N, S});
  Tensor indices = Tensor::empty({N, Q}, DType::kI64, memory.device());
  kernels::top_k(scores, indices);
  Queries q;
  q.reference = sigmoid(gather_rows(box_logits.detach(), indices));
  Var embed = encode_boxes(q.reference.value());
  q.position = slice(embed, 2, 0, C);
  q.target = slice(embed, 2, C, 2 * C);
  return q;
}

Var DeformableDetr::encode_boxes(const Tensor& boxes) const {
  Var encoding = Var(sine_box_encoding(boxes, options_.transformer.dim / 2));
  return transformer_->pos_trans_norm->forward(transformer_->pos_trans->forward(encoding));
}

void DeformableDetr::prepend(DenoisingQueries denoising, Queries& q) const {
  if (denoising.count() == 0) return;
  const int64_t C = options_.transformer.dim;
  Var boxes = Var(denoising.boxes);
  Var position = options_.two_stage
                     ? slice(encode_boxes(denoising.boxes), 2, 0, C)
                     : ref_point_head_->forward(Var(sine_box_encoding(denoising.boxes, C / 2)));
  q.target = concat({label_enc_->forward(denoising), q.target}, 1);
  q.position = concat({position, q.position}, 1);
  // Learned queries start from a point.
  q.reference = concat({slice(boxes, 2, 0, q.reference.dim(2)), q.reference}, 1);
  q.groups.leading =
      make_leading_groups(denoising.groups, denoising.size, q.target.dim(1), q.target.device());
  q.denoising = std::move(denoising);
}

void DeformableDetr::decode(const Queries& q, const Var& memory, const TokenMaps& maps, bool record,
                            DetectorOutput& output) {
  int64_t N = q.target.dim(0), Q = q.target.dim(1), L = maps.valid_ratios.dim(1);
  Var ratios = Var(maps.valid_ratios.unsqueeze(1));  // [N, 1, L, 2]
  Var ratios_twice = concat({ratios, ratios}, -1);
  Var target = q.target, reference = q.reference;
  output.query_groups = q.groups.equal;
  for (int64_t i = 0; i < options_.transformer.decoder_layers; ++i) {
    int64_t numbers = reference.dim(2);  // 2: (x, y), 4: (x, y, w, h)
    Var points = mul(reshape(reference, {N, Q, 1, numbers}), numbers == 4 ? ratios_twice : ratios);
    SACCADE_CHECK(points.dim(2) == L, "[detector] reference points of {} levels, expected {}", points.dim(2),
                  L);
    if (record) output.sampling.emplace_back();
    target = transformer_->decoder->layer(i).forward(target, q.position,
                                                     {.key = memory,
                                                      .value = memory,
                                                      .padding_mask = maps.padding_mask,
                                                      .reference_points = points,
                                                      .levels = maps.levels,
                                                      .record = record ? &output.sampling.back() : nullptr},
                                                     q.groups);
    LayerPrediction prediction;
    prediction.logits = class_embed_[static_cast<size_t>(i)]->forward(target);
    Var offset = bbox_embed_[static_cast<size_t>(i)]->forward(target);
    Var origin = inverse_sigmoid(reference);
    if (numbers == 4) {
      prediction.boxes = sigmoid(add(offset, origin));
    } else {
      Var xy = add(slice(offset, -1, 0, 2), origin);
      prediction.boxes = sigmoid(concat({xy, slice(offset, -1, 2, 4)}, -1));
    }
    if (options_.box_refine) reference = prediction.boxes.detach();
    add_layer(output, q.denoising, prediction);
  }
}

namespace {

std::shared_ptr<Module> build_deformable_detr(const Args& model, int64_t classes, const Args& criterion) {
  const Args& t = model.get_section("transformer");
  DeformableDetrOptions options{.transformer = read_transformer_options(t),
                                .box_refine = t.get_bool("box_refine"),
                                .two_stage = t.get_bool("two_stage")};
  options.read(t, criterion, classes);
  options.transformer.denoising = options.denoising.queries > 0;
  const int64_t levels = options.transformer.levels = t.get_int("levels");
  t.finish("Deformable DETR");
  if (options.two_stage && !options.box_refine)
    fail_input("{}.two_stage: needs box_refine, as in the official model", t.path());
  if (options.two_stage && options.extra_query_groups > 0)
    fail_input("{}.extra_query_groups: needs learned queries, not two_stage", t.path());
  auto backbone = build_backbone(model.get_section("backbone"),
                                 levels == 1 ? std::vector<int64_t>{4} : std::vector<int64_t>{2, 3, 4});
  const auto maps = static_cast<int64_t>(backbone->channels().size());
  if (levels < maps)
    fail_input("{}.levels: {} levels for {} backbone outputs, expected at least as many", t.path(), levels,
               maps);
  return std::make_shared<DeformableDetr>(options, std::move(backbone));
}

[[maybe_unused]] const bool deformable_detr_registered =
    model_types().add({.name = "deformable_detr",
                       .summary = "Deformable DETR (Zhu et al. 2021)",
                       .task = "detection",
                       .file = __FILE__,
                       .build = build_deformable_detr,
                       .infer = infer_deformable_detr});

}  // namespace

}  // namespace saccade
