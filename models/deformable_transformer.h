// The encoder and decoder of Deformable DETR (Zhu et al. 2021), with the official parameter names. Note that
// the decoder layer's norms are not named in their order of execution.
#pragma once

#include "layers/attention.h"
#include "layers/linear.h"
#include "layers/norm.h"

namespace saccade {

struct DeformableTransformerOptions {
  int64_t dim = 256, heads = 8, ffn_dim = 1024;
  int64_t encoder_layers = 6, decoder_layers = 6;
  int64_t levels = 4, encoder_points = 4, decoder_points = 4;
  double dropout = 0.1;
  Args encoder_attention, decoder_self_attention,
      decoder_cross_attention;  // sections; empty: the official layers
};

// The S tokens of all levels and what is known about them.
struct TokenMaps {
  std::vector<LevelShape> levels;
  Tensor padding_mask;      // bool [N, S]; undefined: nothing is padded
  Tensor valid_ratios;      // f32 [N, L, 2] as (x, y): valid part of each level
  Tensor reference_points;  // f32 [N, S, L, 2]: pixel centres, in every level's padded coordinates
};

class DeformableEncoderLayer : public Module {
 public:
  explicit DeformableEncoderLayer(const DeformableTransformerOptions& options);
  Var forward(const Var& tokens, const Var& position, const TokenMaps& maps);  // [N, S, C] -> [N, S, C]
  std::string type_name() const override { return "EncoderLayer"; }
  bool supports_recompute() const override { return true; }

 private:
  double dropout_;
  std::shared_ptr<Attention> self_attn_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Linear> linear1_, linear2_;
};

class DeformableDecoderLayer : public Module {
 public:
  explicit DeformableDecoderLayer(const DeformableTransformerOptions& options);
  // target, position [N, Q, C]; reference_points [N, Q, L, 2 or 4]; queries attend to each other in `groups`
  // equal groups
  Var forward(const Var& target, const Var& position, const Var& reference_points, const Var& memory,
              const TokenMaps& maps, int64_t groups, SamplingRecord* record);
  std::string type_name() const override { return "DecoderLayer"; }

 private:
  double dropout_;
  std::shared_ptr<Attention> self_attn_, cross_attn_;
  std::shared_ptr<LayerNorm> norm1_, norm2_, norm3_;
  std::shared_ptr<Linear> linear1_, linear2_;
};

class DeformableEncoder : public Module {
 public:
  explicit DeformableEncoder(const DeformableTransformerOptions& options);
  Var forward(Var tokens, const Var& position, const TokenMaps& maps);
  std::string type_name() const override { return "Encoder"; }

 private:
  std::vector<std::shared_ptr<DeformableEncoderLayer>> layers_;
};

// Holds the layers; the loop over them belongs to the model, which refines boxes between them.
class DeformableDecoder : public Module {
 public:
  explicit DeformableDecoder(const DeformableTransformerOptions& options);
  std::string type_name() const override { return "Decoder"; }
  DeformableDecoderLayer& layer(int64_t i) { return *layers_[static_cast<size_t>(i)]; }
  // The official files carry the heads under these names too when boxes are refined.
  void add_head_names(const std::string& name, std::shared_ptr<Module> head) { child(name, std::move(head)); }

 private:
  std::vector<std::shared_ptr<DeformableDecoderLayer>> layers_;
};

// x' = norm(x + dropout(linear2(dropout(relu(linear1(x))))))
Var feed_forward(const Var& x, const Linear& linear1, const Linear& linear2, const LayerNorm& norm,
                 double dropout_p, bool training);

}  // namespace saccade
