#include "models/rt_detr/query_selection.h"

#include "layers/norm.h"
#include "models/common/deformable_tokens.h"

namespace saccade {

class QuerySelection::TokenHead : public Module {
 public:
  explicit TokenHead(int64_t dim) {
    proj_ = make_child<Linear>("proj", dim, dim, LinearOptions{.weight_init = init::xavier_uniform()});
    norm_ = make_child<LayerNorm>("norm", dim);
  }
  Var forward(const Var& x) const { return norm_(proj_(x)); }

 private:
  Child<Linear> proj_;
  Child<LayerNorm> norm_;
};

QuerySelection::QuerySelection(int64_t dim, int64_t columns, int64_t classes, int64_t queries,
                               Activation activation)
    : classes_(classes), queries_(queries) {
  enc_output_ = make_child<TokenHead>("enc_output", dim);
  enc_score_head_ = child("enc_score_head", make_class_head(dim, columns));
  enc_bbox_head_ = child("enc_bbox_head", make_refining_head(dim, 4, activation));
}

DecoderQueries QuerySelection::forward(const Var& memory, const Proposals& proposals,
                                       LayerPrediction& predictions) const {
  Var tokens = masked_fill(memory, proposals.invalid.unsqueeze(-1), 0);
  Tensor indices;
  {  // All tokens are scored; what learns are the chosen ones, which alone the losses see.
    NoGrad no_grad;
    Var logits = enc_score_head_(enc_output_(tokens));
    indices = best_tokens(logits.value(), classes_, queries_);
  }
  Var selected = enc_output_(gather_rows(tokens, indices));
  Var box_logits = add(enc_bbox_head_(selected), gather_rows(Var(proposals.logits), indices));
  if (training()) {  // they are for its losses
    predictions.logits = enc_score_head_(selected);
    predictions.boxes = sigmoid(box_logits);
  }
  return {.target = selected.detach(), .reference = box_logits.detach()};
}

Activation read_decoder_activation(const Args& own) {
  return own.get_string("decoder_activation") == "silu" ? Activation::kSilu : Activation::kRelu;
}

std::shared_ptr<Mlp> make_refining_head(int64_t dim, int64_t out, Activation activation) {
  const LinearOptions zero{.weight_init = init::constant(0), .bias_init = init::constant(0)};
  return std::make_shared<Mlp>(std::vector{dim, dim, dim, out},
                               MlpOptions{.activation = activation, .last = zero});
}

void prepend_denoising(const DetectorInput& input, bool training, int64_t classes,
                       const DenoisingOptions& options, const LabelEmbedding* embedding,
                       DecoderQueries& queries) {
  DenoisingQueries denoising = make_denoising(input, training, classes, options);
  if (denoising.count() == 0) return;
  const Var target = call(*embedding, denoising), reference = inverse_sigmoid(Var(denoising.boxes));
  prepend(std::move(denoising), target, {}, reference, queries);
}

}  // namespace saccade
