// DETR's transformer (Carion et al. 2020), with the official parameter names: the encoder, which Deformable
// DETR shares, and the decoder. Every attention layer comes from the registry.
//
// Post-norm layers compute x = norm(x + f(x)); pre-norm layers x = x + f(norm(x)), and their encoder ends
// with a norm. The decoder always ends with one, which every layer's output goes through.
#pragma once

#include "layers/attention.h"
#include "layers/mlp.h"
#include "layers/norm.h"

namespace saccade {

struct TransformerOptions {
  int64_t dim = 0, heads = 0, ffn_dim = 0;
  int64_t encoder_layers = 0, decoder_layers = 0;
  int64_t levels = 1, encoder_points = 0, decoder_points = 0;  // for attention layers that sample
  double dropout = 0;
  bool pre_norm = false;
  // Sections of the configuration; empty: the layers of the official model.
  Args encoder_attention, decoder_self_attention, decoder_cross_attention;
};

// Reads the fields above from the section model.transformer, which the caller finishes, but for what only one family has:
// levels and pre_norm.
TransformerOptions read_transformer_options(const Args& section);

// The S tokens of all levels and what is known about them.
struct TokenMaps {
  FeatureLevels levels;
  std::vector<std::vector<MapSize>> valid;  // [L][N]: the part of each image's map that is not padding
  Tensor padding_mask;                      // bool [N, S]; undefined: nothing is padded
  Tensor valid_ratios;                      // f32 [N, L, 2] as (x, y): valid part of each level
  Tensor reference_points;  // f32 [N, S, L, 2]: pixel centres, in every level's padded coordinates
};

class TransformerEncoderLayer : public Module {
 public:
  // attention: the registered layer where the options name none
  TransformerEncoderLayer(const TransformerOptions& options, const std::string& attention);
  // tokens [N, S, C], position [N or 1, S, C] -> [N, S, C]
  Var forward(const Var& tokens, const Var& position, const TokenMaps& maps);
  std::string type_name() const override { return "EncoderLayer"; }
  bool supports_recompute() const override { return true; }

 private:
  double dropout_;
  bool pre_norm_;
  std::shared_ptr<Attention> self_attn_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Mlp> feed_forward_;
};

class TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerOptions& options, const std::string& attention);
  Var forward(Var tokens, const Var& position, const TokenMaps& maps);
  std::string type_name() const override { return "Encoder"; }

 private:
  std::vector<std::shared_ptr<TransformerEncoderLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;  // pre-norm only
};

// What the decoder reads, the same for all its layers.
struct DecoderMemory {
  Var key, value;  // [N, S, C], with and without the position
  TokenMaps maps;
};

class TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerOptions& options);
  // target, position [N, Q, C] -> [N, Q, C]; queries attend to each other in `groups` equal groups
  Var forward(const Var& target, const Var& position, const DecoderMemory& memory, int64_t groups);
  std::string type_name() const override { return "DecoderLayer"; }

 private:
  Var among_queries(const Var& target, const Var& position, int64_t groups);
  Var to_memory(const Var& target, const Var& position, const DecoderMemory& memory);

  double dropout_;
  bool pre_norm_;
  std::shared_ptr<Attention> self_attn_, multihead_attn_;
  std::shared_ptr<LayerNorm> norm1_, norm2_, norm3_;
  std::shared_ptr<Mlp> feed_forward_;
};

class TransformerDecoder : public Module {
 public:
  explicit TransformerDecoder(const TransformerOptions& options);
  // The normalised output [N, Q, C] of every layer.
  Vars forward(Var target, const Var& position, const DecoderMemory& memory, int64_t groups);
  std::string type_name() const override { return "Decoder"; }

 private:
  std::vector<std::shared_ptr<TransformerDecoderLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

// What follows is shared with Deformable DETR's decoder.

// `linear1` and `linear2` of a layer. Weights xavier, biases PyTorch's default: what the official reset leaves.
std::shared_ptr<Mlp> feed_forward(const TransformerOptions& options);
AttentionShape attention_shape(const TransformerOptions& options, int64_t points);
// Attention of the queries [N, Q, C] with each other, within each of `groups` equal groups.
Var attend_in_groups(Attention& layer, const Var& target, const Var& position, int64_t groups);

}  // namespace saccade
