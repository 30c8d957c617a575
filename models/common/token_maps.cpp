#include "models/common/token_maps.h"

#include <algorithm>
#include <bit>

#include "autograd/scope.h"
#include "core/kernels/feature_grid/feature_grid.h"
#include "core/kernels/sine_encoding/sine_encoding.h"
#include "core/kernels/top_k/top_k.h"

namespace saccade {
namespace {

// Counts the nearest-neighbour samples, `cells` on an axis of `length` pixels, in its first `valid` pixels.
int64_t valid_cells(int64_t cells, int64_t length, int64_t valid) {
  int64_t n = 0;
  while (n < cells && n * length / cells < valid) ++n;
  return n;
}

// Returns the un-padded part of one level for every image.
std::vector<MapSize> valid_sizes(const MapSize& level, const DetectorInput& input) {
  if (input.sizes.empty()) return std::vector<MapSize>(static_cast<size_t>(input.images.dim(0)), level);
  std::vector<MapSize> valid;
  for (const ImageSize& image : input.sizes)
    valid.push_back({valid_cells(level.height, input.images.dim(1), image.height),
                     valid_cells(level.width, input.images.dim(2), image.width)});
  return valid;
}

}  // namespace

TokenMaps make_token_maps(const FeatureLevels& levels, const DetectorInput& input,
                          const ConstantKeeper* keeper) {
  const int64_t N = input.images.dim(0), L = levels.size(), S = levels.tokens();
  const Device device = input.images.device();
  SACCADE_CHECK(input.sizes.empty() || static_cast<int64_t>(input.sizes.size()) == N,
                "[detector] {} sizes for {} images", input.sizes.size(), N);
  TokenMaps maps;
  maps.levels = levels;
  maps.key.add(device, N, L);
  bool padded = false;
  for (const MapSize& level : levels) {
    maps.valid.push_back(valid_sizes(level, input));
    maps.key.add(level.height, level.width);
    for (const MapSize& v : maps.valid.back()) {
      maps.key.add(v.height, v.width);
      padded = padded || v != level;
    }
  }
  auto make = [&]() -> Tensors {
    std::vector<int64_t> sizes;
    for (size_t n = 0; n < static_cast<size_t>(N); ++n)
      for (const auto& level : maps.valid) sizes.insert(sizes.end(), {level[n].height, level[n].width});
    Tensor valid = Tensor::from<int64_t>({N, L, 2}, sizes, device);
    Tensor ratios = Tensor::empty({N, L, 2}, DType::kF32, device);
    Tensor points = Tensor::empty({N, S, L, 2}, DType::kF32, device);
    Tensor mask = Tensor::empty({N, S}, DType::kBool, device);
    kernels::token_maps(valid, levels, ratios, points, mask);
    return {valid, ratios, points, mask};
  };
  const Tensors made = keeper ? keeper->get(maps.key, make) : make();
  maps.valid_sizes = made[0];
  maps.valid_ratios = made[1];
  maps.reference_points = made[2];
  if (padded) maps.padding_mask = made[3];
  return maps;
}

Tensors sine_positions(const TokenMaps& maps, int64_t channels, const SinePositions& options,
                       const ConstantKeeper* keeper) {
  SACCADE_CHECK(channels % 4 == 0, "[sine_positions] {} channels, expected a multiple of 4", channels);
  auto make = [&] {
    Tensors positions;
    for (size_t l = 0; l < maps.valid.size(); ++l) {
      const std::vector<MapSize>& valid = maps.valid[l];
      const bool same = std::ranges::all_of(valid, [&](const MapSize& v) { return v == valid[0]; });
      const int64_t batch = same && !valid.empty() ? 1 : std::ssize(valid);
      positions.push_back(Tensor::empty({batch, maps.levels[static_cast<int64_t>(l)].cells(), channels},
                                        DType::kF32, maps.valid_sizes.device()));
    }
    kernels::sine_maps(maps.valid_sizes, maps.levels, options.offset, options.temperature, positions);
    return positions;
  };
  if (!keeper) return make();
  CacheKey key = maps.key;
  key.add(channels, std::bit_cast<int64_t>(options.offset), std::bit_cast<int64_t>(options.temperature));
  return keeper->get(key, make);
}

Proposals make_proposals(const TokenMaps& maps, const ConstantKeeper* keeper) {
  auto make = [&]() -> Tensors {
    const int64_t N = maps.valid_sizes.dim(0), S = maps.levels.tokens();
    const Device device = maps.valid_sizes.device();
    Tensor logits = Tensor::empty({N, S, 4}, DType::kF32, device);
    Tensor invalid = Tensor::empty({N, S}, DType::kBool, device);
    kernels::token_proposals(maps.valid_sizes, maps.levels, logits, invalid);
    return {logits, invalid};
  };
  CacheKey key = maps.key;
  key.add(int64_t{-1});  // nothing else from these maps is kept under this key
  const Tensors made = keeper ? keeper->get(key, make) : make();
  return {made[0], made[1]};
}

Tensor best_tokens(const Tensor& logits, int64_t classes, int64_t count) {
  const int64_t N = logits.dim(0), S = logits.dim(1);
  Tensor scores = Tensor::empty({N, S}, DType::kF32, logits.device());
  const Tensor known = logits.dtype() == DType::kF64 ? logits.to(DType::kF32) : logits;
  kernels::row_max(known.slice(-1, 0, classes).contiguous(), scores);
  Tensor indices = Tensor::empty({N, std::min(count, S)}, DType::kI64, logits.device());
  kernels::top_k(scores, indices);
  if (execution().observer)
    observe_kernel("best_tokens", {logits}, indices, OpAttributes().add("classes", classes));
  return indices;
}

}  // namespace saccade
