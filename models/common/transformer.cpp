#include "models/common/transformer.h"

#include "autograd/engine.h"

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

namespace {

// `linear1` and `linear2` of a layer. The biases use PyTorch's default, which the official resets keep.
std::shared_ptr<Mlp> feed_forward(const TransformerOptions& o) {
  return std::make_shared<Mlp>(std::vector{o.dim, o.ffn_dim, o.dim},
                               MlpOptions{.names = {"linear1", "linear2"},
                                          .activation = o.activation,
                                          .dropout = o.dropout,
                                          .linear = {.weight_init = o.ffn_init}});
}

AttentionShape attention_shape(const TransformerOptions& o, int64_t points, bool same_tokens,
                               bool reference_points) {
  return {.dim = o.dim,
          .heads = o.heads,
          .levels = o.levels,
          .points = points,
          .dropout = o.dropout,
          .same_tokens = same_tokens,
          .reference_points = reference_points};
}

// Lets the queries [N, Q, C] attend to each other.
Var attend_in_groups(Attention& layer, const Var& target, const Var& position, const QueryGroups& groups) {
  int64_t N = target.dim(0), Q = target.dim(1), C = target.dim(2);
  Shape grouped{N * groups.equal, Q / groups.equal, C};
  Var query = reshape(add(target, position), grouped);
  AttentionInput input{.query = query, .key = query, .value = reshape(target, grouped), .mask = groups.mask};
  return reshape(call(layer, input), {N, Q, C});
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerOptions& o, const std::string& attention)
    : dropout_(o.dropout), pre_norm_(o.pre_norm) {
  self_attn_ = child("self_attn", make_attention(o.encoder_attention, attention,
                                                 attention_shape(o, o.encoder_points, true, true)));
  norm1_ = make_child<LayerNorm>("norm1", o.dim);
  feed_forward_ = child("", feed_forward(o));
  norm2_ = make_child<LayerNorm>("norm2", o.dim);
}

Var TransformerEncoderLayer::forward(const Var& tokens, const Var& position, const TokenMaps& maps) {
  Var value = pre_norm_ ? norm1_(tokens) : tokens;
  Var query = add(value, position);
  AttentionInput input{.query = query,
                       .key = query,
                       .value = value,
                       .padding_mask = maps.padding_mask,
                       .reference_points = Var(maps.reference_points),
                       .levels = maps.levels};
  Var attended = self_attn_(input);
  if (pre_norm_) {
    Var x = add(tokens, dropout(attended, dropout_, training()));
    return add(x, feed_forward_(norm2_(x)));
  }
  Var x = norm1_(attended, tokens, dropout_);
  return norm2_(feed_forward_(x, false), x, dropout_);
}

TransformerEncoder::TransformerEncoder(const TransformerOptions& o, const std::string& attention) {
  for (int64_t i = 0; i < o.encoder_layers; ++i)
    layers_.push_back(make_child<TransformerEncoderLayer>(fmt::format("layers.{}", i), o, attention));
  if (o.pre_norm) norm_ = make_child<LayerNorm>("norm", o.dim);
}

Var TransformerEncoder::forward(Var tokens, const Var& position, const TokenMaps& maps) {
  for (auto& layer : layers_) {
    auto run = [&layer, maps](const Vars& in) { return layer(in[0], in[1], maps); };
    tokens = layer->recompute() ? recomputed(run, {tokens, position}) : run({tokens, position});
  }
  return norm_ ? norm_(tokens) : tokens;
}

Gate::Gate(int64_t dim) {
  gate_ = make_child<Linear>("gate", 2 * dim, 2 * dim,
                             LinearOptions{.weight_init = init::constant(0), .bias_init = init::constant(0)});
  norm_ = make_child<LayerNorm>("norm", dim);
}

Var Gate::forward(const Var& x, const Var& y) const {
  const int64_t dim = x.dim(-1);
  const Var gates = sigmoid(gate_(concat({x, y}, -1)));
  return norm_(add(mul(slice(gates, -1, 0, dim), x), mul(slice(gates, -1, dim, 2 * dim), y)));
}

// Makes the children in the official orders.
TransformerDecoderLayer::TransformerDecoderLayer(const TransformerOptions& o, bool deformable)
    : dropout_(o.dropout), pre_norm_(o.pre_norm) {
  auto norm = [&](const char* name) { return make_child<LayerNorm>(name, o.dim); };
  auto cross_attention = [&] {
    AttentionShape shape = attention_shape(o, o.decoder_points, false, deformable);
    if (o.cross_heads > 0) shape.heads = o.cross_heads;
    cross_attn_ = child(deformable ? "cross_attn" : "multihead_attn",
                        make_attention(o.decoder_cross_attention,
                                       deformable  ? "ms_deform_attn"
                                       : o.anchors ? "conditional_attention"
                                                   : "multi_head_attention",
                                       shape));
  };
  const bool norms_differ = deformable && !o.norms_in_order;
  if (deformable) cross_attention();
  if (norms_differ) cross_norm_ = norm("norm1");
  self_attn_ = child("self_attn", make_attention(o.decoder_self_attention, "multi_head_attention",
                                                 attention_shape(o, 1, true, false)));
  if (o.denoising && !self_attn_->supports_mask())
    fail_input("{}.type: {} does not support a mask, which model.transformer.denoising needs",
               o.decoder_self_attention.path(), o.decoder_self_attention.get_string("type", ""));
  if (norms_differ) self_norm_ = norm("norm2");
  if (!deformable) cross_attention();
  feed_forward_ = child("", feed_forward(o));
  if (!norms_differ) {
    self_norm_ = norm("norm1");
    if (o.gated)
      gateway_ = make_child<Gate>("gateway", o.dim);
    else
      cross_norm_ = norm("norm2");
  }
  last_norm_ = norm("norm3");
}

Var TransformerDecoderLayer::forward(const Var& target, const Var& position, AttentionInput memory,
                                     const QueryGroups& groups) {
  auto among_queries = [&](const Var& x) { return attend_in_groups(*self_attn_, x, position, groups); };
  auto to_memory = [&](const Var& x) {
    const Var& place = memory.query_position.defined() ? memory.query_position : position;
    memory.query = memory.query_position.defined() && cross_attn_->separates_positions() ? x : add(x, place);
    if (memory.key_position.defined() && !cross_attn_->separates_positions())
      memory.key = add(memory.key, memory.key_position);
    return cross_attn_(memory);
  };
  if (pre_norm_) {
    auto dropped = [&](const Var& x) { return dropout(x, dropout_, training()); };
    Var x = add(target, dropped(among_queries(self_norm_(target))));
    x = add(x, dropped(to_memory(cross_norm_(x))));
    return add(x, feed_forward_(last_norm_(x)));
  }
  Var x = self_norm_(among_queries(target), target, dropout_);
  x = gateway_ ? gateway_(x, to_memory(x)) : cross_norm_(to_memory(x), x, dropout_);
  return last_norm_(feed_forward_(x, false), x, dropout_);
}

TransformerDecoder::TransformerDecoder(const TransformerOptions& o, bool deformable) {
  for (int64_t i = 0; i < o.decoder_layers; ++i)
    layers_.push_back(make_child<TransformerDecoderLayer>(fmt::format("layers.{}", i), o, deformable));
  if (!deformable || o.last_norm) norm_ = make_child<LayerNorm>("norm", o.dim);
}

Vars TransformerDecoder::forward(Var target, const Var& position, const AttentionInput& memory,
                                 const QueryGroups& groups) {
  Vars outputs;
  for (auto& layer : layers_) {
    target = layer(target, position, memory, groups);
    outputs.push_back(normalised(target));
  }
  return outputs;
}

}  // namespace saccade
