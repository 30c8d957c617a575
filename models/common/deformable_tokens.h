// What Deformable DETR and the models after it share: from a backbone's maps to encoded tokens of several
// levels, and heads.
#pragma once

#include "layers/conv2d.h"
#include "models/backbone.h"
#include "models/common/token_maps.h"
#include "models/common/transformer.h"

namespace saccade {

// Maps of L levels: `{l}.0`, `{l}.1`, a 1x1 convolution and a group norm of each of the backbone's maps;
// further levels come by 3x3 convolutions of stride 2, the first one from the backbone's last map, the next
// ones from the level before.
class InputProjections : public Module {
 public:
  // channels: of the backbone's maps, at most `levels`
  InputProjections(const std::vector<int64_t>& channels, int64_t levels, int64_t dim);
  Vars forward(const Vars& features) const;  // [N, H_l, W_l, dim] each

 private:
  struct Level {
    Child<Conv2d> conv;
    Child<GroupNorm> norm;
  };
  std::vector<Level> levels_;
};

// The backbone of model.backbone for so many levels, the stages that the model wants unless its `outputs` say
// others. Throws InputError where it has more outputs than there are levels.
std::shared_ptr<Backbone> build_backbone_of_levels(const Args& model, int64_t levels,
                                                   const std::vector<int64_t>& default_outputs);

// The tokens of all levels, joined.
struct LevelTokens {
  Var memory;  // [N, S, C]
  TokenMaps maps;
};
// projected: the levels' maps of input.images
LevelTokens join_levels(const Vars& projected, const DetectorInput& input, const ConstantKeeper& keeper);
// The same encoded; level_embed [L, C] tells the levels apart.
LevelTokens encode_levels(const Vars& projected, const DetectorInput& input, TransformerEncoder& encoder,
                          const Var& level_embed, const SinePositions& positions,
                          const ConstantKeeper& keeper);

// What a decoder layer attends to: the tokens around the references, [N, Q, L, 2 or 4] in every level. With
// `record`, the output has its sampling points.
AttentionInput attend_to(const LevelTokens& tokens, const Var& references, bool record,
                         DetectorOutput& output);

// Reference points of queries, [N, Q, 2 or 4] of the un-padded image,
// in every level's padded coordinates [N, Q, L, 2 or 4].
Var references_in_levels(const Var& references, const TokenMaps& maps);

// A class head whose scores start at 0.01 (Lin et al. 2017), and a box head that starts without an offset and
// with this size.
std::shared_ptr<Linear> make_class_head(int64_t dim, int64_t columns);
std::shared_ptr<Mlp> make_box_head(int64_t dim, double size_logit);
// Official heads are clones: `to` gets the tensors of `from`, but for the last ones.
void copy_tensors(const Module& from, Module& to, size_t but_last = 0);

}  // namespace saccade
