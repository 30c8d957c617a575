#include "models/common/deformable_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor/error.h"

namespace saccade {

InputProjections::InputProjections(const std::vector<int64_t>& channels, int64_t levels, int64_t dim) {
  const auto maps = static_cast<int64_t>(channels.size());
  SACCADE_CHECK(levels >= maps, "[detector] {} levels for {} backbone outputs", levels, maps);
  constexpr int64_t kNormGroups = 32;
  for (int64_t l = 0; l < levels; ++l) {
    const int64_t in = l < maps ? channels[static_cast<size_t>(l)] : l == maps ? channels.back() : dim;
    const int64_t kernel = l < maps ? 1 : 3;
    Conv2dOptions options{.stride = kernel == 1 ? 1 : 2, .padding = kernel / 2};
    auto conv =
        make_child<Conv2d>(fmt::format("{}.0", l), in, dim, kernel, options,
                           Conv2dInit{.weight = init::xavier_uniform(), .bias_values = init::constant(0)});
    levels_.push_back({conv, make_child<GroupNorm>(fmt::format("{}.1", l), std::gcd(kNormGroups, dim), dim)});
  }
}

Vars InputProjections::forward(const Vars& features) const {
  Vars projected;
  for (size_t l = 0; l < levels_.size(); ++l) {
    const Var& source = l < features.size()    ? features[l]
                        : l == features.size() ? features.back()
                                               : projected.back();
    projected.push_back(levels_[l].norm(levels_[l].conv(source)));
  }
  return projected;
}

LevelTokens join_levels(const Vars& projected, const DetectorInput& input, const ConstantKeeper& keeper) {
  FeatureLevels levels;
  Vars tokens;
  for (const Var& map : projected) {
    levels.push_back({map.dim(1), map.dim(2)});
    tokens.push_back(reshape(map, {map.dim(0), map.dim(1) * map.dim(2), map.dim(3)}));
  }
  return {concat(tokens, 1), make_token_maps(levels, input, &keeper)};
}

LevelTokens encode_levels(const Vars& projected, const DetectorInput& input, TransformerEncoder& encoder,
                          const Var& level_embed, const SinePositions& options,
                          const ConstantKeeper& keeper) {
  LevelTokens out = join_levels(projected, input, keeper);
  const Tensors sines = sine_positions(out.maps, level_embed.dim(1), options, &keeper);
  Vars positions;
  for (int64_t l = 0; l < out.maps.levels.size(); ++l)
    positions.push_back(add(Var(sines[static_cast<size_t>(l)]), slice(level_embed, 0, l, l + 1)));
  // Levels whose samples are all alike have a batch of one; batches must agree before levels are joined.
  int64_t position_batch = 1;
  for (const Var& p : positions) position_batch = std::max(position_batch, p.dim(0));
  for (Var& p : positions)
    if (p.dim(0) != position_batch) p = expand(p, {position_batch, p.dim(1), p.dim(2)});
  out.memory = call(encoder, out.memory, concat(positions, 1), out.maps);
  return out;
}

AttentionInput attend_to(const LevelTokens& tokens, const Var& references, bool record,
                         DetectorOutput& output) {
  return {.key = tokens.memory,
          .value = tokens.memory,
          .padding_mask = tokens.maps.padding_mask,
          .reference_points = references,
          .levels = tokens.maps.levels,
          .record = record ? &output.sampling.emplace_back() : nullptr};
}

Var references_in_levels(const Var& references, const TokenMaps& maps) {
  const int64_t N = references.dim(0), Q = references.dim(1), numbers = references.dim(2);
  Var ratios = Var(maps.valid_ratios.unsqueeze(1));  // [N, 1, L, 2]
  return mul(reshape(references, {N, Q, 1, numbers}), numbers == 4 ? concat({ratios, ratios}, -1) : ratios);
}

std::shared_ptr<Linear> make_class_head(int64_t dim, int64_t columns) {
  return std::make_shared<Linear>(dim, columns,
                                  LinearOptions{.bias_init = init::constant(-std::log((1 - 0.01) / 0.01))});
}

std::shared_ptr<Mlp> make_box_head(int64_t dim, double size_logit) {
  const auto size = static_cast<float>(size_logit);
  MlpOptions box{
      .last = LinearOptions{.weight_init = init::constant(0), .bias_init = init::values({0, 0, size, size})}};
  return std::make_shared<Mlp>(std::vector{dim, dim, dim, int64_t{4}}, box);
}

std::shared_ptr<Backbone> build_backbone_of_levels(const Args& model, int64_t levels,
                                                   const std::vector<int64_t>& default_outputs) {
  auto backbone = build_backbone(model.get_section("backbone"), default_outputs);
  const auto maps = static_cast<int64_t>(backbone->channels().size());
  if (levels < maps)
    fail_input("{}.levels: {} levels for {} backbone outputs, expected at least one for each",
               model.get_section("transformer").path(), levels, maps);
  return backbone;
}

void copy_tensors(const Module& from, Module& to, size_t but_last) {
  auto source = from.named_tensors(), target = to.named_tensors();
  for (size_t i = 0; i + but_last < source.size(); ++i)
    target[i].var.value().copy_from(source[i].var.value());
}

}  // namespace saccade
