// A deformable decoder that computes the positions of its queries from their boxes, with the official names
// `norm` and `ref_point_head`; used by DINO and LW-DETR.
#pragma once

#include "layers/constant_keeper.h"
#include "models/common/transformer.h"

namespace saccade {

class BoxDecoder : public TransformerDecoder {
 public:
  explicit BoxDecoder(const TransformerOptions& options);
  // boxes [N, Q, 4] of the un-padded image, with or without history -> [N, Q, C]
  Var position_of(const Var& boxes, const TokenMaps& maps) const;

 private:
  int64_t dim_;
  ConstantKeeper constants_;
  Child<Mlp> ref_point_head_;
};

}  // namespace saccade
