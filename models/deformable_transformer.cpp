#include "models/deformable_transformer.h"

#include "autograd/engine.h"
#include "layers/module_scope.h"

namespace saccade {
namespace {

// Weights xavier, biases PyTorch's default: what the official reset leaves in the feed-forward layers.
std::shared_ptr<Linear> xavier_linear(int64_t in, int64_t out) {
  return std::make_shared<Linear>(in, out, LinearOptions{.weight_init = init::xavier_uniform()});
}

AttentionShape attention_shape(const DeformableTransformerOptions& o, int64_t points) {
  return {.dim = o.dim, .heads = o.heads, .levels = o.levels, .points = points, .dropout = o.dropout};
}

}  // namespace

Var feed_forward(const Var& x, const Linear& linear1, const Linear& linear2, const LayerNorm& norm,
                 double dropout_p, bool training) {
  Var hidden = dropout(linear1.forward(x, Activation::kRelu), dropout_p, training);
  return norm.forward(dropout(linear2.forward(hidden), dropout_p, training), x);
}

DeformableEncoderLayer::DeformableEncoderLayer(const DeformableTransformerOptions& o) : dropout_(o.dropout) {
  self_attn_ = child("self_attn", make_attention(o.encoder_attention, "ms_deform_attn",
                                                 attention_shape(o, o.encoder_points)));
  norm1_ = make_child<LayerNorm>("norm1", o.dim);
  linear1_ = child("linear1", xavier_linear(o.dim, o.ffn_dim));
  linear2_ = child("linear2", xavier_linear(o.ffn_dim, o.dim));
  norm2_ = make_child<LayerNorm>("norm2", o.dim);
}

Var DeformableEncoderLayer::forward(const Var& tokens, const Var& position, const TokenMaps& maps) {
  ModuleScope scope(*this);
  Var query = add(tokens, position);
  AttentionInput input{.query = query,
                       .key = query,
                       .value = tokens,
                       .padding_mask = maps.padding_mask,
                       .reference_points = Var(maps.reference_points),
                       .levels = maps.levels};
  Var attended = self_attn_->forward(input);
  Var x = norm1_->forward(dropout(attended, dropout_, training()), tokens);
  return feed_forward(x, *linear1_, *linear2_, *norm2_, dropout_, training());
}

DeformableDecoderLayer::DeformableDecoderLayer(const DeformableTransformerOptions& o) : dropout_(o.dropout) {
  cross_attn_ = child("cross_attn", make_attention(o.decoder_cross_attention, "ms_deform_attn",
                                                   attention_shape(o, o.decoder_points)));
  norm1_ = make_child<LayerNorm>("norm1", o.dim);
  self_attn_ = child("self_attn",
                     make_attention(o.decoder_self_attention, "multi_head_attention", attention_shape(o, 1)));
  norm2_ = make_child<LayerNorm>("norm2", o.dim);
  linear1_ = child("linear1", xavier_linear(o.dim, o.ffn_dim));
  linear2_ = child("linear2", xavier_linear(o.ffn_dim, o.dim));
  norm3_ = make_child<LayerNorm>("norm3", o.dim);
}

Var DeformableDecoderLayer::forward(const Var& target, const Var& position, const Var& reference_points,
                                    const Var& memory, const TokenMaps& maps, int64_t groups,
                                    SamplingRecord* record) {
  ModuleScope scope(*this);
  int64_t N = target.dim(0), Q = target.dim(1), C = target.dim(2);
  Shape grouped{N * groups, Q / groups, C}, whole{N, Q, C};
  Var query = reshape(add(target, position), grouped);
  AttentionInput among_queries{.query = query, .key = query, .value = reshape(target, grouped)};
  Var attended = reshape(self_attn_->forward(among_queries), whole);
  Var x = norm2_->forward(dropout(attended, dropout_, training()), target);

  AttentionInput to_memory{.query = add(x, position),
                           .key = memory,
                           .value = memory,
                           .padding_mask = maps.padding_mask,
                           .reference_points = reference_points,
                           .levels = maps.levels,
                           .record = record};
  x = norm1_->forward(dropout(cross_attn_->forward(to_memory), dropout_, training()), x);
  return feed_forward(x, *linear1_, *linear2_, *norm3_, dropout_, training());
}

DeformableEncoder::DeformableEncoder(const DeformableTransformerOptions& o) {
  for (int64_t i = 0; i < o.encoder_layers; ++i)
    layers_.push_back(make_child<DeformableEncoderLayer>(fmt::format("layers.{}", i), o));
}

Var DeformableEncoder::forward(Var tokens, const Var& position, const TokenMaps& maps) {
  ModuleScope scope(*this);
  for (auto& layer : layers_) {
    if (layer->recompute()) {
      tokens =
          checkpoint([&layer = *layer, maps](const Vars& in) { return layer.forward(in[0], in[1], maps); },
                     {tokens, position});
    } else {
      tokens = layer->forward(tokens, position, maps);
    }
  }
  return tokens;
}

DeformableDecoder::DeformableDecoder(const DeformableTransformerOptions& o) {
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    layers_.push_back(make_child<DeformableDecoderLayer>(fmt::format("layers.{}", i), o));
}

}  // namespace saccade
