// Single-scale deformable attention (Zhu et al. 2021, eq. 2): MSDeformAttn on one level, the map that `level`
// names.
#include "layers/attention.h"

namespace saccade {

class DeformableAttention final : public Attention {
 public:
  DeformableAttention(const AttentionShape& shape, const Args& args)
      : level_(args.get_int("level", 0, 0, shape.levels - 1)) {
    AttentionShape single = shape;
    single.levels = 1;
    single.points = args.get_int("points", shape.points, 1, 64);
    inner_ = child("", attention_layers().find("ms_deform_attn").make(single, Args()));
  }

  Var forward(const AttentionInput& input) override {
    if (level_ >= input.levels.size())
      fail_input("attention layer deformable_attention: the tokens come from {} maps, there is no level {}",
                 input.levels.size(), level_);
    MapSize level = input.levels[level_];
    int64_t begin = input.levels.start(level_), end = begin + level.cells();
    AttentionInput single = input;
    single.value = slice(input.value, 1, begin, end);
    if (input.padding_mask.defined()) single.padding_mask = input.padding_mask.slice(1, begin, end);
    if (input.reference_points.defined())
      single.reference_points = slice(input.reference_points, 2, level_, level_ + 1);
    single.levels = {level};
    return inner_(single);
  }

 private:
  int64_t level_;
  Child<Attention> inner_;
};

SACCADE_REGISTER_ATTENTION(
    "deformable_attention", DeformableAttention,
    "deformable attention on one feature map (Zhu et al. 2021, eq. 2)",
    "query [N, Q, C], value [N, S, C], reference points [N, Q, L, 2 or 4] -> [N, Q, C]",
    "O(N_q C^2 + N_k C^2 + N_q K C)", AttentionInputs::kReferencePoints);

}  // namespace saccade
