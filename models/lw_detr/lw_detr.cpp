#include "models/lw_detr/lw_detr.h"

#include "models/common/deformable_tokens.h"
#include "models/rt_detr/query_selection.h"

namespace saccade {
namespace {

// offsets [.., 4] in units of boxes [.., 4] as (cx, cy, w, h), the sizes as logarithms.
Var moved(const Var& offsets, const Var& boxes) {
  const Var by = cast(offsets, boxes.dtype()), size = slice(boxes, -1, 2, 4);
  const Var centre = add(mul(slice(by, -1, 0, 2), size), slice(boxes, -1, 0, 2));
  return concat({centre, mul(exp(slice(by, -1, 2, 4)), size)}, -1);
}

// Images as wide and high as the backbone takes them; what is added counts as padding.
DetectorInput whole_patches(const DetectorInput& input, int64_t multiple) {
  DetectorInput out = input;
  out.images = pad_map(input.images, multiple);
  const int64_t H = input.images.dim(1), W = input.images.dim(2);
  if (input.sizes.empty() && (out.images.dim(1) != H || out.images.dim(2) != W))
    out.sizes.assign(static_cast<size_t>(input.images.dim(0)), {H, W});
  return out;
}

}  // namespace

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

// The heads over the tokens are clones of the decoder's.
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
  Vars predicting;  // of the layers that predict
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
    {  // All tokens are scored; what learns are the chosen ones.
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
  // A map of few cells has fewer queries, the first of each group.
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

}  // namespace saccade
