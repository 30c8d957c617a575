// Bilinear sampling, by GridSample of opset 16 (opset 20 renamed its mode).
#include "core/types/feature_levels.h"
#include "train/export/lowering.h"

namespace saccade {
namespace {

using Sizes = std::vector<int64_t>;

// maps [N, C, H, W], grid [N, A, B, 2] in [-1, 1] -> [N, C, A, B]; zeros outside the maps
std::string sample(Lowering& l, const std::string& maps, const std::string& grid, bool align_corners) {
  return l.node("GridSample", {maps, grid},
                {{"mode", std::string("bilinear")},
                 {"padding_mode", std::string("zeros")},
                 {"align_corners", int64_t{align_corners}}});
}

FeatureLevels levels_of(const Lowering& l) {
  const std::vector<int64_t>& sizes = l.integers("levels");
  FeatureLevels levels;
  for (size_t i = 0; i < sizes.size(); i += 2) levels.push_back({sizes[i], sizes[i + 1]});
  return levels;
}

// Two numbers for each level, [1, 1, 1, L, 1, 2], one for its width and one for its height.
template <class F>
std::string of_levels(Lowering& l, const FeatureLevels& levels, std::string_view hint, const F& number) {
  std::vector<float> numbers;
  for (const MapSize& level : levels)
    numbers.insert(numbers.end(),
                   {number(static_cast<float>(level.width)), number(static_cast<float>(level.height))});
  return l.graph().constant(Tensor::from<float>({1, 1, 1, levels.size(), 1, 2}, numbers), hint);
}

// grid = 2 location - 1 for locations in [0, 1]: [N, M, L, Q, P, 2]
std::string sampling_grid(Lowering& l, const FeatureLevels& levels, int64_t points) {
  const int64_t Q = l.shape(1)[1], L = levels.size();
  const bool boxes = l.shape(1)[3] == 4;
  l.graph().keep_f32(true);
  const std::string reference = l.reshape(l.input(1), {0, Q, 1, L, 1, boxes ? 4 : 2});
  auto numbers = [&](int64_t begin, int64_t end) {
    return boxes ? l.slice(reference, 5, begin, end) : reference;
  };
  std::string moved = l.input(2);  // [N, Q, M, L, P, 2]
  if (boxes) {
    const double units = 1 / static_cast<double>(points);  // 0.5 / P boxes, doubled for the grid
    moved = l.node("Mul", {l.node("Mul", {moved, l.graph().scalar(units)}), numbers(2, 4)});
  } else {
    moved = l.node("Mul", {moved, of_levels(l, levels, "cells", [](float size) { return 2 / size; })});
  }
  const std::string centre =
      l.node("Sub", {l.node("Mul", {numbers(0, 2), l.graph().scalar(2)}), l.graph().scalar(1)});
  std::string grid = l.transpose(l.node("Add", {centre, moved}), {0, 2, 3, 1, 4, 5});
  l.graph().keep_f32(false);
  return grid;
}

// value [N, S, M, D], reference points [N, Q, L, 2 or 4], offsets [N, Q, M, L, P, 2], logits
// [N, Q, M, L P] -> [N, Q, M D]
SACCADE_LOWERING(ms_deform_attn) {
  const FeatureLevels levels = levels_of(l);
  const int64_t L = levels.size(), S = levels.tokens(), M = l.shape(0)[2], D = l.shape(0)[3];
  const int64_t Q = l.shape(2)[1], P = l.shape(2)[4];
  const std::string grid = sampling_grid(l, levels, P);
  const std::string value = l.reshape(l.transpose(l.input(0), {0, 2, 3, 1}), {-1, D, S});  // [N M, D, S]
  std::vector<std::string> samples;
  for (int64_t i = 0; i < L; ++i) {
    const MapSize& level = levels[i];
    const std::string part =
        L == 1 ? value : l.slice(value, 2, levels.start(i), levels.start(i) + level.cells());
    const std::string points = L == 1 ? grid : l.slice(grid, 2, i, i + 1);
    samples.push_back(sample(l, l.reshape(part, {-1, D, level.height, level.width}),
                             l.reshape(points, {-1, Q, P, 2}), false));
  }
  const std::string sampled =
      L == 1 ? samples[0] : l.node("Concat", samples, {{"axis", 3}});  // [N M, D, Q, L P]
  l.graph().keep_f32(true);
  const std::string weights = l.node("Softmax", {l.input(3)}, {{"axis", -1}});
  l.graph().keep_f32(false);
  const std::string by_head = l.reshape(l.transpose(weights, {0, 2, 1, 3}), {-1, 1, Q, L * P});
  const std::string sums =
      l.node("ReduceSum", {l.node("Mul", {sampled, by_head}), l.graph().ints({3}, "axes")},
             {{"keepdims", 0}});  // [N M, D, Q]
  l.result(l.transpose(l.reshape(sums, {-1, M * D, Q}), {0, 2, 1}));
}

// reference points [N, Q, L, 2 or 4], offsets [N, Q, M, L, P, 2] -> the centres of the cells that contain the
// sampling points, in units of cells
SACCADE_LOWERING(ms_deform_cells, true) {
  const FeatureLevels levels = levels_of(l);
  const int64_t Q = l.shape(0)[1], L = levels.size(), P = l.shape(1)[4];
  const bool boxes = l.shape(0)[3] == 4;
  const std::string reference = l.reshape(l.input(0), {0, Q, 1, L, 1, boxes ? 4 : 2});
  const std::string unit =
      boxes ? l.node("Mul", {l.slice(reference, 5, 2, 4), l.graph().scalar(0.5 / static_cast<double>(P))})
            : of_levels(l, levels, "cells", [](float size) { return 1 / size; });
  const std::string centre = boxes ? l.slice(reference, 5, 0, 2) : reference;
  const std::string location = l.node("Add", {l.node("Mul", {l.input(1), unit}), centre});
  const std::string sizes = of_levels(l, levels, "sizes", [](float size) { return size; }),
                    last = of_levels(l, levels, "last", [](float size) { return size - 1; });
  const std::string half = l.graph().scalar(0.5);
  const std::string whole = l.node("Floor", {l.node("Add", {l.node("Mul", {location, sizes}), half})});
  const std::string inside = l.node("Min", {l.node("Max", {whole, l.graph().scalar(0)}), last});
  l.result(l.node("Add", {inside, half}));
}

// x [N, H, W, C], grid [N, P, 2] or [N, G, P, 2] -> [N, P, C]
SACCADE_LOWERING(grid_sample) {
  const Shape &x = l.shape(0), &grid = l.shape(1);
  const int64_t groups = grid.rank() == 4 ? grid[1] : 1, points = grid[-2], channels = x[3];
  std::string maps = l.channels_first(0);
  if (groups > 1) maps = l.reshape(maps, {-1, channels / groups, x[1], x[2]});
  const std::string places = l.reshape(l.input(1), {-1, points, 1, 2});
  const std::string y = sample(l, maps, places, l.integer("align_corners") != 0);
  l.result(l.transpose(l.reshape(y, {-1, channels, points}), {0, 2, 1}));
}

// table [H, rows, columns] sampled at (query point [N or 1, Q, 2] - key point [N, G, S, 2]) / 2 ->
// [N, H, Q, S]
SACCADE_LOWERING(sampled_position_bias, true) {
  const Shape &table = l.shape(0), &keys = l.shape(2);
  const int64_t heads = table[0], groups = keys[1], S = keys[2], Q = l.shape(1)[1];
  const std::string half = l.graph().scalar(0.5);
  const std::string query = l.reshape(l.broadcast_input(1), {0, 1, Q, 1, 2});
  const std::string key = l.reshape(l.input(2), {0, groups, 1, S, 2});
  const std::string grid = l.reshape(l.node("Mul", {l.node("Sub", {query, key}), half}), {-1, Q, S, 2});
  const Tensor one = l.constant(size_t{0}).reshape({1, groups, heads / groups, table[1] * table[2]});
  const std::string tables =
      l.reshape(l.for_every_image(one, "table"), {-1, heads / groups, table[1], table[2]});
  l.result(l.reshape(sample(l, tables, grid, true), {-1, heads, Q, S}));
}

}  // namespace
}  // namespace saccade
