#include "models/common/transformer.h"

#include "autograd/engine.h"
#include "layers/module_scope.h"

namespace saccade {

TransformerOptions read_transformer_options(const Args& t) {
  TransformerOptions o{.dim = t.get_int("hidden_dim"),
                       .heads = t.get_int("heads"),
                       .ffn_dim = t.get_int("ffn_dim"),
                       .encoder_layers = t.get_int("encoder_layers"),
                       .decoder_layers = t.get_int("decoder_layers"),
                       .encoder_points = t.get_int("encoder_points"),
                       .decoder_points = t.get_int("decoder_points"),
                       .dropout = t.get_float("dropout"),
                       .encoder_attention = t.get_section("encoder_attention"),
                       .decoder_self_attention = t.get_section("decoder_self_attention"),
                       .decoder_cross_attention = t.get_section("decoder_cross_attention")};
  if (o.dim % o.heads != 0 || o.dim % 4 != 0)
    fail_input("{}.hidden_dim: {} must be a multiple of 4 and of heads ({})", t.path(), o.dim, o.heads);
  return o;
}

std::shared_ptr<Mlp> feed_forward(const TransformerOptions& o) {
  return std::make_shared<Mlp>(std::vector{o.dim, o.ffn_dim, o.dim},
                               MlpOptions{.names = {"linear1", "linear2"},
                                          .dropout = o.dropout,
                                          .linear = {.weight_init = init::xavier_uniform()}});
}

AttentionShape attention_shape(const TransformerOptions& o, int64_t points) {
  return {.dim = o.dim, .heads = o.heads, .levels = o.levels, .points = points, .dropout = o.dropout};
}

Var attend_in_groups(Attention& layer, const Var& target, const Var& position, int64_t groups) {
  int64_t N = target.dim(0), Q = target.dim(1), C = target.dim(2);
  Shape grouped{N * groups, Q / groups, C};
  Var query = reshape(add(target, position), grouped);
  AttentionInput input{.query = query, .key = query, .value = reshape(target, grouped)};
  return reshape(layer.forward(input), {N, Q, C});
}

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerOptions& o, const std::string& attention)
    : dropout_(o.dropout), pre_norm_(o.pre_norm) {
  self_attn_ = child("self_attn",
                     make_attention(o.encoder_attention, attention, attention_shape(o, o.encoder_points)));
  norm1_ = make_child<LayerNorm>("norm1", o.dim);
  feed_forward_ = child("", feed_forward(o));
  norm2_ = make_child<LayerNorm>("norm2", o.dim);
}

Var TransformerEncoderLayer::forward(const Var& tokens, const Var& position, const TokenMaps& maps) {
  ModuleScope scope(*this);
  Var value = pre_norm_ ? norm1_->forward(tokens) : tokens;
  Var query = add(value, position);
  AttentionInput input{.query = query,
                       .key = query,
                       .value = value,
                       .padding_mask = maps.padding_mask,
                       .reference_points = Var(maps.reference_points),
                       .levels = maps.levels};
  Var attended = dropout(self_attn_->forward(input), dropout_, training());
  if (pre_norm_) {
    Var x = add(tokens, attended);
    return add(x, feed_forward_->forward(norm2_->forward(x)));
  }
  Var x = norm1_->forward(attended, tokens);
  return norm2_->forward(feed_forward_->forward(x), x);
}

TransformerEncoder::TransformerEncoder(const TransformerOptions& o, const std::string& attention) {
  for (int64_t i = 0; i < o.encoder_layers; ++i)
    layers_.push_back(make_child<TransformerEncoderLayer>(fmt::format("layers.{}", i), o, attention));
  if (o.pre_norm) norm_ = make_child<LayerNorm>("norm", o.dim);
}

Var TransformerEncoder::forward(Var tokens, const Var& position, const TokenMaps& maps) {
  ModuleScope scope(*this);
  for (auto& layer : layers_) {
    if (layer->recompute()) {
      tokens =
          recomputed([&layer = *layer, maps](const Vars& in) { return layer.forward(in[0], in[1], maps); },
                     {tokens, position});
    } else {
      tokens = layer->forward(tokens, position, maps);
    }
  }
  return norm_ ? norm_->forward(tokens) : tokens;
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerOptions& o)
    : dropout_(o.dropout), pre_norm_(o.pre_norm) {
  self_attn_ = child("self_attn",
                     make_attention(o.decoder_self_attention, "multi_head_attention", attention_shape(o, 1)));
  multihead_attn_ = child("multihead_attn", make_attention(o.decoder_cross_attention, "multi_head_attention",
                                                           attention_shape(o, o.decoder_points)));
  feed_forward_ = child("", feed_forward(o));
  norm1_ = make_child<LayerNorm>("norm1", o.dim);
  norm2_ = make_child<LayerNorm>("norm2", o.dim);
  norm3_ = make_child<LayerNorm>("norm3", o.dim);
}

Var TransformerDecoderLayer::among_queries(const Var& target, const Var& position, int64_t groups) {
  return dropout(attend_in_groups(*self_attn_, target, position, groups), dropout_, training());
}

Var TransformerDecoderLayer::to_memory(const Var& target, const Var& position, const DecoderMemory& memory) {
  AttentionInput input{.query = add(target, position),
                       .key = memory.key,
                       .value = memory.value,
                       .padding_mask = memory.maps.padding_mask,
                       .levels = memory.maps.levels};
  return dropout(multihead_attn_->forward(input), dropout_, training());
}

Var TransformerDecoderLayer::forward(const Var& target, const Var& position, const DecoderMemory& memory,
                                     int64_t groups) {
  ModuleScope scope(*this);
  if (pre_norm_) {
    Var x = add(target, among_queries(norm1_->forward(target), position, groups));
    x = add(x, to_memory(norm2_->forward(x), position, memory));
    return add(x, feed_forward_->forward(norm3_->forward(x)));
  }
  Var x = norm1_->forward(among_queries(target, position, groups), target);
  x = norm2_->forward(to_memory(x, position, memory), x);
  return norm3_->forward(feed_forward_->forward(x), x);
}

TransformerDecoder::TransformerDecoder(const TransformerOptions& o) {
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    layers_.push_back(make_child<TransformerDecoderLayer>(fmt::format("layers.{}", i), o));
  norm_ = make_child<LayerNorm>("norm", o.dim);
}

Vars TransformerDecoder::forward(Var target, const Var& position, const DecoderMemory& memory,
                                 int64_t groups) {
  ModuleScope scope(*this);
  Vars outputs;
  for (auto& layer : layers_) {
    target = layer->forward(target, position, memory, groups);
    outputs.push_back(norm_->forward(target));
  }
  return outputs;
}

}  // namespace saccade
