// DETR's decoder with boxes as queries (Liu et al. 2022, DAB-DETR). Every layer looks around the boxes of the
// one before: a query's position is made of its box, and the cross-attention compares it with the positions
// of the tokens apart from what they hold (conditional_attention), the wider the box, the wider. The heads,
// one for all layers, correct that box. Unlike in the paper, no gradient goes through the first layer's
// positions to the anchors.
#pragma once

#include "layers/mlp.h"
#include "models/common/transformer.h"

namespace saccade {

class AnchorDecoder : public TransformerDecoder {
 public:
  // temperature: of the sines (20 in the paper)
  AnchorDecoder(const TransformerOptions& options, double temperature);
  // boxes [N, Q, 4] as (cx, cy, w, h), constants. memory: as of TransformerDecoderLayer, with key_position
  // [1 or N, S, C], the sines of the cells' centres. -> [N, Q, C]
  Var run_layer(int64_t i, const Var& target, const Tensor& boxes, AttentionInput memory,
                const QueryGroups& groups);

 private:
  Var query_position(int64_t layer, const Var& target, const Tensor& boxes, const Var& sines) const;

  int64_t dim_;
  double temperature_;
  Child<Mlp> ref_point_head_, query_scale_, ref_anchor_head_;
};

}  // namespace saccade
