// The decoder of Deformable DETR (Zhu et al. 2021), with the official parameter names; its encoder is DETR's
// with another attention layer. Note that the decoder layer's norms are not named in their order of
// execution.
#pragma once

#include "models/common/transformer.h"

namespace saccade {

class DeformableDecoderLayer : public Module {
 public:
  explicit DeformableDecoderLayer(const TransformerOptions& options);
  // target, position [N, Q, C]; reference_points [N, Q, L, 2 or 4]; queries attend to each other in `groups`
  // equal groups
  Var forward(const Var& target, const Var& position, const Var& reference_points, const Var& memory,
              const TokenMaps& maps, int64_t groups, SamplingRecord* record);
  std::string type_name() const override { return "DecoderLayer"; }

 private:
  double dropout_;
  std::shared_ptr<Attention> self_attn_, cross_attn_;
  std::shared_ptr<LayerNorm> norm1_, norm2_, norm3_;
  std::shared_ptr<Mlp> feed_forward_;
};

// Holds the layers; the loop over them belongs to the model, which refines boxes between them.
class DeformableDecoder : public Module {
 public:
  explicit DeformableDecoder(const TransformerOptions& options);
  std::string type_name() const override { return "Decoder"; }
  DeformableDecoderLayer& layer(int64_t i) { return *layers_[static_cast<size_t>(i)]; }
  // The official files carry the heads under these names too when boxes are refined.
  void add_head_names(const std::string& name, std::shared_ptr<Module> head) { child(name, std::move(head)); }

 private:
  std::vector<std::shared_ptr<DeformableDecoderLayer>> layers_;
};

}  // namespace saccade
