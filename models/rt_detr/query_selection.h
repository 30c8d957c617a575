// How RT-DETR and its relatives choose their queries (Zhao et al. 2024, section 4.3):
// the tokens with the highest scores.
#pragma once

#include "layers/mlp.h"
#include "models/common/token_maps.h"
#include "models/detection/denoising.h"

namespace saccade {

// `enc_output` (what the tokens are scored by), `enc_score_head` and `enc_bbox_head`.
class QuerySelection : public Module {
 public:
  // columns: of the logits; classes: of them, those that stand for a class
  QuerySelection(int64_t dim, int64_t columns, int64_t classes, int64_t queries, Activation activation);
  // With references [N, Q, 4] before the sigmoid, and no positions. predictions:
  // those of the chosen tokens, in training.
  DecoderQueries forward(const Var& memory, const Proposals& proposals, LayerPrediction& predictions) const;

 private:
  class TokenHead;
  int64_t classes_, queries_;
  Child<TokenHead> enc_output_;
  Child<Linear> enc_score_head_;
  Child<Mlp> enc_bbox_head_;
};

// The field decoder_activation of a family's part.
Activation read_decoder_activation(const Args& own);
// A box head of three layers whose last one starts at zero; out: its numbers a query.
std::shared_ptr<Mlp> make_refining_head(int64_t dim, int64_t out, Activation activation);
// Puts the denoising queries of the input, if there are any, before the others.
void prepend_denoising(const DetectorInput& input, bool training, int64_t classes,
                       const DenoisingOptions& options, const LabelEmbedding* embedding,
                       DecoderQueries& queries);

}  // namespace saccade
