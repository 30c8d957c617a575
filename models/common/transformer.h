// The transformers of DETR (Carion et al. 2020) and of Deformable DETR (Zhu et al. 2021), with the official
// parameter names. Every attention layer comes from the registry.
//
// Post-norm layers compute x = norm(x + f(x)); pre-norm layers x = x + f(norm(x)), and their encoder ends
// with a norm. DETR's decoder always ends with a norm, which is applied to every layer's output.
#pragma once

#include "autograd/ops.h"
#include "core/runtime/lru_cache.h"
#include "layers/attention.h"
#include "layers/mlp.h"
#include "layers/module.h"
#include "layers/norm.h"

namespace saccade {

struct TransformerOptions {
  int64_t dim = 0, heads = 0, ffn_dim = 0;
  int64_t encoder_layers = 0, decoder_layers = 0;
  int64_t levels = 1, encoder_points = 0, decoder_points = 0;  // for attention layers that sample
  double dropout = 0;
  bool pre_norm = false;
  bool denoising = false;                         // queries may have an attention mask
  bool anchors = false;                           // DETR's decoder gets AttentionInput::query_position
  Activation activation = Activation::kRelu;      // of the feed-forward blocks
  Initializer ffn_init = init::xavier_uniform();  // of the weights of these blocks
  bool norms_in_order = false;  // norm1 of a deformable decoder follows self-attention, as in RT-DETR
  bool gated = false;           // a gate merges in a deformable decoder's cross-attention, as in D-FINE
  bool last_norm = false;       // a deformable decoder also ends with a norm, as in LW-DETR
  int64_t cross_heads = 0;      // of a deformable decoder's cross-attention; 0: `heads`
  // Sections of the configuration; if empty, the layers of the official model.
  Args encoder_attention, decoder_self_attention, decoder_cross_attention;
};

// Reads the fields above from the section model.transformer, except levels and pre_norm, which only one
// family has. The caller finishes the section.
TransformerOptions read_transformer_options(const Args& section);

// The S tokens of all levels with their geometry.
struct TokenMaps {
  FeatureLevels levels;
  std::vector<std::vector<MapSize>> valid;  // [L][N]: the part of each image's map that is not padding
  Tensor valid_sizes;                       // i64 [N, L, 2]: their heights and widths, on the device
  CacheKey key;                             // of all of these, for a ConstantKeeper of derived values
  Tensor padding_mask;                      // bool [N, S]; undefined if nothing is padded
  Tensor valid_ratios;                      // f32 [N, L, 2] as (x, y): valid fraction of each level
  Tensor reference_points;  // f32 [N, S, L, 2]: pixel centres, in every level's padded coordinates
};

class TransformerEncoderLayer : public Module {
 public:
  // attention: the registered layer used if the options name none
  TransformerEncoderLayer(const TransformerOptions& options, const std::string& attention);
  // tokens [N, S, C], position [N or 1, S, C] -> [N, S, C]
  Var forward(const Var& tokens, const Var& position, const TokenMaps& maps);
  std::string type_name() const override { return "EncoderLayer"; }
  bool supports_recompute() const override { return true; }

 private:
  double dropout_;
  bool pre_norm_;
  Child<Attention> self_attn_;
  Child<LayerNorm> norm1_, norm2_;
  Child<Mlp> feed_forward_;
};

class TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerOptions& options, const std::string& attention);
  Var forward(Var tokens, const Var& position, const TokenMaps& maps);
  std::string type_name() const override { return "Encoder"; }

 private:
  std::vector<Child<TransformerEncoderLayer>> layers_;
  Child<LayerNorm> norm_;  // pre-norm only
};

// norm(g1 x + g2 y) with gates g1, g2 = sigmoid(Linear([x, y])): the residual connection of D-FINE's decoder.
class Gate : public Module {
 public:
  explicit Gate(int64_t dim);
  Var forward(const Var& x, const Var& y) const;  // [N, Q, C] each

 private:
  Child<Linear> gate_;
  Child<LayerNorm> norm_;
};

// Defines which queries of a decoder attend to each other.
struct QueryGroups {
  int64_t equal = 1;   // number of groups of equal size; queries attend only within their group
  AttentionMask mask;  // or a mask that restricts what some queries attend to
};

// A decoder layer of DETR or of Deformable DETR. In the latter the cross-attention is `cross_attn` with
// `norm1`, and `norm2` belongs to the self-attention, unless the norms are in order.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(const TransformerOptions& options, bool deformable);
  // target, position [N, Q, C] -> [N, Q, C]. memory: the input of the cross-attention except its query. If it
  // has a query_position, this replaces `position` there; for a layer that does not keep positions apart,
  // query_position and key_position are added.
  Var forward(const Var& target, const Var& position, AttentionInput memory, const QueryGroups& groups);
  std::string type_name() const override { return "DecoderLayer"; }

 private:
  double dropout_;
  bool pre_norm_;
  Child<Attention> self_attn_, cross_attn_;
  Child<LayerNorm> self_norm_, cross_norm_, last_norm_;
  Child<Gate> gateway_;  // instead of cross_norm_
  Child<Mlp> feed_forward_;
};

class TransformerDecoder : public Module {
 public:
  TransformerDecoder(const TransformerOptions& options, bool deformable);
  // DETR: returns the normalised output [N, Q, C] of every layer. The model itself loops over Deformable
  // DETR's layers, since it refines boxes between them.
  Vars forward(Var target, const Var& position, const AttentionInput& memory, const QueryGroups& groups);
  const Child<TransformerDecoderLayer>& layer(int64_t i) const { return layers_[static_cast<size_t>(i)]; }
  // Applies the last norm to a layer's output, in DETR and LW-DETR.
  Var normalised(const Var& x) const { return norm_(x); }
  // Official files also list Deformable DETR's heads under these names if boxes are refined.
  void add_head_names(const std::string& name, std::shared_ptr<Module> head) { child(name, std::move(head)); }
  std::string type_name() const override { return "Decoder"; }

 private:
  std::vector<Child<TransformerDecoderLayer>> layers_;
  Child<LayerNorm> norm_;
};

// Learned queries `query_embed.weight` [Q, C] and, for training only, additional groups of queries
// `query_embed_groups.weight` for one-to-many supervision (Group DETR, Chen et al. 2023).
class QueryEmbedding : public Module {
 public:
  QueryEmbedding(int64_t queries, int64_t channels, int64_t extra_groups) : extra_groups_(extra_groups) {
    queries_ = param("query_embed.weight", {queries, channels}, init::normal(0, 1));
    if (extra_groups > 0)
      extra_ = param("query_embed_groups.weight", {extra_groups * queries, channels}, init::normal(0, 1));
  }
  // [groups() * Q, C]
  Var forward() const { return groups() > 1 ? concat({queries_, extra_}, 0) : queries_; }
  int64_t groups() const { return training() ? 1 + extra_groups_ : 1; }

 private:
  int64_t extra_groups_;
  Var queries_, extra_;
};

}  // namespace saccade
