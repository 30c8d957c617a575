#include "models/lw_detr/lw_detr.h"

#include <numeric>

#include "layers/conv2d.h"
#include "models/build.h"
#include "models/common/conv_norm.h"
#include "models/common/deformable_tokens.h"
#include "models/lw_detr/weights.h"

namespace saccade {
namespace {

constexpr double kChannelNormEps = 1e-6;
constexpr int64_t kManyChannels = 512;  // of a map; with more, channels are halved before upsampling

// Moves boxes [.., 4] as (cx, cy, w, h) by offsets [.., 4] in units of the boxes, the sizes as logarithms.
Var moved(const Var& offsets, const Var& boxes) {
  const Var by = cast(offsets, boxes.dtype()), size = slice(boxes, -1, 2, 4);
  const Var centre = add(mul(slice(by, -1, 0, 2), size), slice(boxes, -1, 0, 2));
  return concat({centre, mul(exp(slice(by, -1, 2, 4)), size)}, -1);
}

// Pads the images to the size that the backbone needs; the additions count as padding.
DetectorInput whole_patches(const DetectorInput& input, int64_t multiple) {
  DetectorInput out = input;
  out.images = pad_map(input.images, multiple);
  const int64_t H = input.images.dim(1), W = input.images.dim(2);
  if (input.sizes.empty() && (out.images.dim(1) != H || out.images.dim(2) != W))
    out.sizes.assign(static_cast<size_t>(input.images.dim(0)), {H, W});
  return out;
}

// `conv` and its norm `bn`, of either kind.
class NormedConv : public Module {
 public:
  NormedConv(int64_t in, int64_t out, int64_t kernel, const ProjectorOptions& o, int64_t stride = 1,
             Activation activation = Activation::kSilu)
      : activation_(activation) {
    if (o.batch_norm) {
      const ConvNormOptions both{
          .kernel = kernel, .stride = stride, .activation = activation, .norm_name = "bn"};
      both_ = make_child<ConvNorm>("", in, out, both);
      return;
    }
    conv_ =
        make_child<Conv2d>("conv", in, out, kernel, Conv2dOptions{.stride = stride, .padding = kernel / 2},
                           Conv2dInit{.bias = false});
    norm_ = make_child<LayerNorm>("bn", out, kChannelNormEps);
  }
  Var forward(const Var& x) const {
    if (both_) return both_(x);
    const Var y = norm_(conv_(x));
    return activation_ == Activation::kSilu ? silu(y) : relu(y);
  }

 private:
  Activation activation_;
  Child<ConvNorm> both_;
  Child<Conv2d> conv_;
  Child<LayerNorm> norm_;
};

// YOLOv8's C2f: half of the channels go through a chain of blocks; all steps are concatenated.
class Fusion : public Module {
 public:
  Fusion(int64_t in, const ProjectorOptions& o) : half_(o.dim / 2) {
    cv1_ = make_child<NormedConv>("cv1", in, 2 * half_, 1, o);
    for (int64_t b = 0; b < o.blocks; ++b)
      for (const char* name : {"cv1", "cv2"})
        chain_.push_back(make_child<NormedConv>(fmt::format("m.{}.{}", b, name), half_, half_, 3, o));
    cv2_ = make_child<NormedConv>("cv2", (2 + o.blocks) * half_, o.dim, 1, o);
  }
  Var forward(const Var& x) const {
    const Var both = cv1_(x);
    Vars steps{both};
    Var step = slice(both, 3, half_, 2 * half_);
    for (size_t i = 0; i < chain_.size(); ++i) {
      step = chain_[i](step);
      if (i % 2 == 1) steps.push_back(step);
    }
    return cv2_(concat(steps, 3));
  }
  std::string type_name() const override { return "C2f"; }

 private:
  int64_t half_;
  Child<NormedConv> cv1_, cv2_;
  std::vector<Child<NormedConv>> chain_;
};

// Resamples a map to one twice as fine or twice as coarse.
class Resampled : public Module {
 public:
  Resampled(int64_t channels, bool finer, const ProjectorOptions& o) : channels_(channels) {
    if (!finer) {
      conv_ = make_child<NormedConv>("0", channels, channels, 3, o, 2, Activation::kRelu);
      return;
    }
    if (channels > kManyChannels) {
      conv_ = make_child<NormedConv>("0", channels, channels / 2, 1, o, 1, Activation::kRelu);
      channels /= 2;
    }
    channels_ = channels / 2;
    // PyTorch's default, whose fan-in is taken from the weight's second axis.
    const Initializer usual = init::linear_default(4 * channels_);
    finer_ = make_child<ConvTranspose2d>(conv_ ? "1" : "0", channels, channels_, 2, usual, usual);
  }
  Var forward(const Var& x) const {
    const Var y = conv_ ? conv_(x) : x;
    return finer_ ? finer_(y) : y;
  }
  int64_t channels() const { return channels_; }

 private:
  int64_t channels_;
  Child<NormedConv> conv_;
  Child<ConvTranspose2d> finer_;
};

}  // namespace

// Turns the maps of a plain vision transformer, which all have one size, into those that the decoder reads
// (Chen et al. 2024, LW-DETR, section 3.2), with the names of the official code.
class LwDetr::Projector : public Module {
 public:
  Projector(const std::vector<int64_t>& channels, const ProjectorOptions& o) {
    for (int64_t l = 0; l < o.levels; ++l) {
      Level level;
      int64_t joined = std::accumulate(channels.begin(), channels.end(), int64_t{0});
      if (o.levels > 1) {
        joined = 0;
        for (size_t i = 0; i < channels.size(); ++i) {
          level.resampled.push_back(
              make_child<Resampled>(fmt::format("stages_sampling.{}.{}", l, i), channels[i], l == 0, o));
          joined += level.resampled.back()->channels();
        }
      }
      level.fusion = make_child<Fusion>(fmt::format("stages.{}.0", l), joined, o);
      level.norm = make_child<LayerNorm>(fmt::format("stages.{}.1", l), o.dim, kChannelNormEps);
      levels_.push_back(std::move(level));
    }
  }
  // [N, H, W, C_i] of one size -> [N, H_l, W_l, dim]
  Vars forward(const Vars& maps) const {
    for (const Var& map : maps)
      if (map.dim(1) != maps[0].dim(1) || map.dim(2) != maps[0].dim(2))
        fail_input(
            "model.backbone: maps of {} x {} and {} x {} cells, expected one map, or maps of one size, as a "
            "vision transformer has",
            maps[0].dim(1), maps[0].dim(2), map.dim(1), map.dim(2));
    Vars out;
    for (const Level& level : levels_) {
      Vars parts = maps;
      for (size_t i = 0; i < level.resampled.size(); ++i) parts[i] = level.resampled[i](maps[i]);
      out.push_back(level.norm(level.fusion(parts.size() == 1 ? parts[0] : concat(parts, 3))));
    }
    return out;
  }

 private:
  struct Level {
    std::vector<Child<Resampled>> resampled;  // of each map; empty if they keep their size
    Child<Fusion> fusion;
    Child<LayerNorm> norm;
  };
  std::vector<Level> levels_;
};

class LwDetr::Transformer : public Module {
 public:
  // groups: of queries, each with its own `enc_*`
  Transformer(const TransformerOptions& o, int64_t groups, int64_t columns) {
    decoder = make_child<BoxDecoder>("decoder", o);
    const LinearOptions xavier{.weight_init = init::xavier_uniform()};
    for (int64_t g = 0; g < groups; ++g)
      enc_output.push_back(make_child<Linear>(fmt::format("enc_output.{}", g), o.dim, o.dim, xavier));
    for (int64_t g = 0; g < groups; ++g)
      enc_output_norm.push_back(make_child<LayerNorm>(fmt::format("enc_output_norm.{}", g), o.dim));
    for (int64_t g = 0; g < groups; ++g)
      enc_out_bbox_embed.push_back(child(fmt::format("enc_out_bbox_embed.{}", g), make_box_head(o.dim, 0)));
    for (int64_t g = 0; g < groups; ++g)
      enc_out_class_embed.push_back(
          child(fmt::format("enc_out_class_embed.{}", g), make_class_head(o.dim, columns)));
  }
  Var propose(size_t group, const Var& tokens) const {
    return enc_output_norm[group](enc_output[group](tokens));
  }

  Child<BoxDecoder> decoder;
  std::vector<Child<Linear>> enc_output, enc_out_class_embed;
  std::vector<Child<LayerNorm>> enc_output_norm;
  std::vector<Child<Mlp>> enc_out_bbox_embed;
};

LwDetr::LwDetr(const LwDetrOptions& options, std::shared_ptr<Backbone> backbone)
    : SetDetector(options), options_(options), backbone_(std::move(backbone)) {
  const TransformerOptions& o = options.transformer;
  const int64_t groups = 1 + options.extra_query_groups, rows = groups * options.queries;
  transformer_ = make_child<Transformer>("transformer", o, groups, logit_columns());
  class_embed_ = child("class_embed", make_class_head(o.dim, logit_columns()));
  bbox_embed_ = child("bbox_embed", make_box_head(o.dim, 0));
  refpoint_embed_ = param("refpoint_embed.weight", {rows, 4}, init::constant(0));
  query_feat_ = param("query_feat.weight", {rows, o.dim}, init::normal(0, 1));
  child("backbone.0.encoder", backbone_);
  projector_ = make_child<Projector>("backbone.0.projector", backbone_->channels(), options.projector);
}

// The heads over the tokens are clones of those of the decoder.
void LwDetr::after_initialize(uint64_t, const std::string&) {
  for (const auto& head : transformer_->enc_out_class_embed) copy_tensors(*class_embed_, *head);
  for (const auto& head : transformer_->enc_out_bbox_embed) copy_tensors(*bbox_embed_, *head);
}

SetOutput LwDetr::predict(const DetectorInput& given) {
  const DetectorInput input = whole_patches(given, backbone_->multiple());
  const Vars projected = projector_(backbone_(input.images));
  const LevelTokens tokens = join_levels(projected, input, constants_);
  SetOutput output;
  output.encoder_classes = output.encoder_in_groups = true;
  Var chosen;
  const DecoderQueries queries = choose_queries(tokens.memory, tokens.maps, chosen, output.encoder);
  output.query_groups = queries.groups.equal;

  const BoxDecoder& decoder = *transformer_->decoder;
  const Var position = decoder.position_of(queries.reference, tokens.maps),
            references = references_in_levels(queries.reference, tokens.maps);
  Var target = queries.target;
  Vars predicting;  // outputs of the layers that predict
  for (int64_t i = 0; i < options_.transformer.decoder_layers; ++i) {
    target = transformer_->decoder->layer(i)(
        target, position, attend_to(tokens, references, input.record_sampling, output), queries.groups);
    const bool last = i + 1 == options_.transformer.decoder_layers;
    if (!last && !(training() && options_.aux_loss)) continue;
    predicting.push_back(decoder.normalised(target));
    output.layers.push_back(
        {class_embed_(predicting.back()), moved(bbox_embed_(predicting.back()), queries.reference)});
  }
  add_masks(predicting, chosen, projected[0], input.images, output);
  return output;
}

DecoderQueries LwDetr::choose_queries(const Var& memory, const TokenMaps& maps, Var& all_chosen,
                                      LayerPrediction& predictions) const {
  const Transformer& t = *transformer_;
  const int64_t N = memory.dim(0), C = memory.dim(2), all = 1 + options_.extra_query_groups;
  const int64_t groups = training() ? all : 1;
  const Proposals proposals = make_proposals(maps);
  const Tensor invalid = proposals.invalid.unsqueeze(-1);
  const Var tokens = masked_fill(memory, invalid, 0);
  const Var places = masked_fill(sigmoid(Var(proposals.logits)), invalid, 0);
  Vars logits, boxes, tokens_of_groups;
  for (size_t g = 0; g < static_cast<size_t>(groups); ++g) {
    Tensor indices;
    {  // All tokens are scored, but only the chosen ones are trained.
      NoGrad no_grad;
      const Var scores = t.enc_out_class_embed[g](t.propose(g, tokens));
      indices = best_tokens(scores.value(), classes(), options_.queries);
    }
    const Var chosen = t.propose(g, gather_rows(tokens, indices));
    tokens_of_groups.push_back(chosen);
    logits.push_back(t.enc_out_class_embed[g](chosen));
    boxes.push_back(moved(t.enc_out_bbox_embed[g](chosen), gather_rows(places, indices)));
  }
  auto joined = [](const Vars& parts) { return parts.size() == 1 ? parts[0] : concat(parts, 1); };
  all_chosen = joined(tokens_of_groups);
  predictions.logits = joined(logits);
  predictions.boxes = joined(boxes);
  // A map of few cells has fewer queries: the first of each group.
  const int64_t Q = boxes[0].dim(1);
  auto rows = [&](const Var& table) {
    const int64_t columns = table.dim(1);
    const Var of_groups = slice(reshape(table, {all, options_.queries, columns}), 0, 0, groups);
    return reshape(slice(of_groups, 1, 0, Q), {1, groups * Q, columns});
  };
  return {.target = expand(rows(query_feat_), {N, groups * Q, C}),
          .reference = moved(rows(refpoint_embed_), predictions.boxes.detach()),
          .groups = {.equal = groups}};
}

void LwDetrOptions::read(const Args& model, int64_t num_classes, const Args& section) {
  const Args &t = model.get_section("transformer"), &own = model.get_section("lw_detr");
  SetDetectorOptions::read(t, section, num_classes);
  transformer = read_transformer_options(t);
  if (denoising.queries > 0)
    fail_input("{}.denoising: LW-DETR and RF-DETR have extra_query_groups instead, expected none", t.path());
  if (transformer.encoder_layers != 0)
    fail_input("{}.encoder_layers: {}, but LW-DETR and RF-DETR have no encoder, expected 0", t.path(),
               transformer.encoder_layers);
  transformer.levels = t.get_int("levels");
  if (transformer.levels > 2)
    fail_input("{}.levels: {}, expected 1 or 2 (LW-DETR, RF-DETR)", t.path(), transformer.levels);
  transformer.norms_in_order = true;
  transformer.cross_heads = own.get_int("cross_heads");
  if (transformer.dim % transformer.cross_heads != 0)
    fail_input("{}.cross_heads: {}, expected a divisor of hidden_dim ({})", own.path(),
               transformer.cross_heads, transformer.dim);
  projector = {.dim = transformer.dim,
               .levels = transformer.levels,
               .blocks = own.get_int("projector_blocks"),
               .batch_norm = own.get_string("projector_norm") == "batch"};
}

namespace {

std::shared_ptr<Module> build_lw_detr(const Args& model, int64_t classes, const Args& criterion) {
  return build_lw_detr_of<LwDetr>(model, classes, criterion, "LW-DETR and RF-DETR without masks");
}

[[maybe_unused]] const bool lw_detr_registered =
    model_types().add({.name = "lw_detr",
                       .summary = "LW-DETR (Chen et al. 2024)",
                       .task = "detection",
                       .build = build_lw_detr,
                       .parts = {"transformer", "lw_detr"},
                       .infer = infer_lw_detr,
                       .preset = SACCADE_LW_DETR_PRESET("lw_detr { projector_norm: 'batch' }")});

[[maybe_unused]] const bool rf_detr_registered =
    model_types().add({.name = "rf_detr",
                       .summary = "RF-DETR (Robinson et al. 2025)",
                       .task = "detection",
                       .build = build_lw_detr,
                       .parts = {"transformer", "lw_detr"},
                       .infer = infer_rf_detr,
                       .preset = SACCADE_LW_DETR_PRESET("")});

}  // namespace
}  // namespace saccade
