#include "models/deformable_detr/deformable_transformer.h"

#include "layers/module_scope.h"

namespace saccade {

DeformableDecoderLayer::DeformableDecoderLayer(const TransformerOptions& o) : dropout_(o.dropout) {
  cross_attn_ = child("cross_attn", make_attention(o.decoder_cross_attention, "ms_deform_attn",
                                                   attention_shape(o, o.decoder_points)));
  norm1_ = make_child<LayerNorm>("norm1", o.dim);
  self_attn_ = child("self_attn",
                     make_attention(o.decoder_self_attention, "multi_head_attention", attention_shape(o, 1)));
  norm2_ = make_child<LayerNorm>("norm2", o.dim);
  feed_forward_ = child("", feed_forward(o));
  norm3_ = make_child<LayerNorm>("norm3", o.dim);
}

Var DeformableDecoderLayer::forward(const Var& target, const Var& position, const Var& reference_points,
                                    const Var& memory, const TokenMaps& maps, int64_t groups,
                                    SamplingRecord* record) {
  ModuleScope scope(*this);
  Var attended = attend_in_groups(*self_attn_, target, position, groups);
  Var x = norm2_->forward(dropout(attended, dropout_, training()), target);

  AttentionInput to_memory{.query = add(x, position),
                           .key = memory,
                           .value = memory,
                           .padding_mask = maps.padding_mask,
                           .reference_points = reference_points,
                           .levels = maps.levels,
                           .record = record};
  x = norm1_->forward(dropout(cross_attn_->forward(to_memory), dropout_, training()), x);
  return norm3_->forward(feed_forward_->forward(x), x);
}

DeformableDecoder::DeformableDecoder(const TransformerOptions& o) {
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    layers_.push_back(make_child<DeformableDecoderLayer>(fmt::format("layers.{}", i), o));
}

}  // namespace saccade
