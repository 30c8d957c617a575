// Parts shared by Deformable DETR and the models derived from it: the way from a backbone's maps to encoded
// tokens of several levels, and the heads.
#pragma once

#include "layers/conv2d.h"
#include "models/backbone.h"
#include "models/common/token_maps.h"
#include "models/common/transformer.h"

namespace saccade {

// Makes the maps of L levels. `{l}.0` and `{l}.1` are a 1x1 convolution and a group norm for each of the
// backbone's maps. Further levels come from 3x3 convolutions of stride 2: the first one from the backbone's
// last map, each next one from the level before.
class InputProjections : public Module {
 public:
  // channels: of the backbone's maps, of which there are at most `levels`
  InputProjections(const std::vector<int64_t>& channels, int64_t levels, int64_t dim);
  Vars forward(const Vars& features) const;  // [N, H_l, W_l, dim] each

 private:
  struct Level {
    Child<Conv2d> conv;
    Child<GroupNorm> norm;
  };
  std::vector<Level> levels_;
};

// Builds the backbone of model.backbone for this many levels. It returns the stages that the model needs
// unless its `outputs` name others. Throws InputError if it has more outputs than there are levels.
std::shared_ptr<Backbone> build_backbone_of_levels(const Args& model, int64_t levels,
                                                   const std::vector<int64_t>& default_outputs);

// The concatenated tokens of all levels.
struct LevelTokens {
  Var memory;  // [N, S, C]
  TokenMaps maps;
};
// projected: the levels' maps of input.images
LevelTokens join_levels(const Vars& projected, const DetectorInput& input, const ConstantKeeper& keeper);
// Joins the levels and encodes the tokens; level_embed [L, C] distinguishes the levels.
LevelTokens encode_levels(const Vars& projected, const DetectorInput& input, TransformerEncoder& encoder,
                          const Var& level_embed, const SinePositions& positions,
                          const ConstantKeeper& keeper);

// The input of a decoder layer's cross-attention: the tokens, sampled around the references [N, Q, L, 2 or 4]
// in every level. With `record`, the output gets the sampling points.
AttentionInput attend_to(const LevelTokens& tokens, const Var& references, bool record,
                         DetectorOutput& output);

// Converts the reference points of queries, [N, Q, 2 or 4] of the un-padded image,
// to the padded coordinates of every level, [N, Q, L, 2 or 4].
Var references_in_levels(const Var& references, const TokenMaps& maps);

// A class head whose scores start at 0.01 (Lin et al. 2017), and a box head that starts with offset zero and
// with this size.
std::shared_ptr<Linear> make_class_head(int64_t dim, int64_t columns);
std::shared_ptr<Mlp> make_box_head(int64_t dim, double size_logit);
// Copies all but the last tensors of `from` to `to`, since the official heads are clones.
void copy_tensors(const Module& from, Module& to, size_t but_last = 0);

}  // namespace saccade
