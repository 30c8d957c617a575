// Attention of all queries with all keys, inside windows, and of tokens with their neighbourhoods.

#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"
#include "core/kernels/window_attention/window_attention.h"
#include "train/export/lowering.h"

namespace saccade {
namespace {

using Sizes = std::vector<int64_t>;

// softmax(scores) in f32, whatever precision the products have.
std::string softmax(Lowering& l, const std::string& scores) {
  l.graph().keep_f32(true);
  std::string weights = l.node("Softmax", {scores}, {{"axis", -1}});
  l.graph().keep_f32(false);
  return weights;
}

void refuse_mask(const Lowering& l) {
  if (l.has_tensor("mask")) l.refuse("images with padding cannot be exported; the size is fixed");
}

SACCADE_LOWERING(attention) {
  refuse_mask(l);
  if (l.number("dropout") > 0) l.refuse("dropout is only for training");
  const int64_t heads = l.integer("heads"), queries = l.shape(0)[1], keys = l.shape(1)[1];
  auto split = [&](size_t i, int64_t rows, const Sizes& axes) {  // [N, S, heads * D], heads moved forward
    return l.transpose(l.reshape(l.input(i), {0, rows, heads, l.shape(i)[2] / heads}), axes);
  };
  const std::string q = l.node("Mul", {split(0, queries, {0, 2, 1, 3}), l.graph().scalar(l.number("scale"))});
  std::string scores = l.node("MatMul", {q, split(1, keys, {0, 2, 3, 1})});
  if (l.has(3)) scores = l.node("Add", {scores, l.broadcast_input(3)});
  const std::string y = l.node("MatMul", {softmax(l, scores), split(2, keys, {0, 2, 1, 3})});
  l.result(l.reshape(l.transpose(y, {0, 2, 1, 3}), {0, queries, l.shape(2)[2]}));
}

// The relative position bias [heads, T, T] of a window's tokens, from the table (window_attention.h).
Tensor window_bias(const Tensor& table, int64_t window, int64_t heads) {
  int64_t side = 2 * window - 1;  // of the table, which may be made for a larger window
  while (side * side < table.dim(0)) side += 2;
  const int64_t tokens = window * window, middle = (side - 1) / 2;
  Tensor bias = Tensor::empty({heads, tokens, tokens});
  const Tensor rows = table.contiguous();
  for (int64_t q = 0; q < tokens; ++q) {
    for (int64_t k = 0; k < tokens; ++k) {
      const int64_t y = q / window - k / window + middle, x = q % window - k % window + middle;
      for (int64_t h = 0; h < heads; ++h)
        bias.data<float>()[(h * tokens + q) * tokens + k] = rows.data<float>()[(y * side + x) * heads + h];
    }
  }
  return bias;
}

// Returns a mask [windows, 1, T, T] that separates tokens which only the shift brought together.
Tensor region_mask(const kernels::WindowGeometry& map, int tokens) {
  Tensor mask = Tensor::empty({map.count(), 1, tokens, tokens});
  float* p = mask.data<float>();
  for (int w = 0; w < map.count(); ++w)
    for (int q = 0; q < tokens; ++q)
      for (int k = 0; k < tokens; ++k)
        *p++ = map.region(w, q) == map.region(w, k) ? 0.0f : kernels::kOtherRegion;
  return mask;
}

// Selects the queries (0), keys (1) or values (2) of [3, ...].
std::string part_of_qkv(Lowering& l, const std::string& qkv, int64_t i) {
  return l.node("Gather",
                {qkv, l.graph().constant(Tensor::from<int64_t>({}, std::vector<int64_t>{i}), "part")},
                {{"axis", 0}});
}

// The windows' tokens are gathered by index, and put back by index.
SACCADE_LOWERING(window_attention) {
  refuse_mask(l);
  const kernels::WindowParams params{l.integer("heads"), l.integer("window"), l.integer("shift"),
                                     l.number("scale")};
  const int64_t heads = params.heads, H = l.shape(0)[1], W = l.shape(0)[2], C = l.shape(0)[3] / 3;
  const kernels::WindowGeometry map(H, W, params);
  const int64_t tokens = params.window * params.window, windows = map.count();
  std::vector<int64_t> pick(static_cast<size_t>(windows * tokens)), put(static_cast<size_t>(H * W));
  for (int w = 0; w < map.count(); ++w) {
    for (int i = 0; i < static_cast<int>(tokens); ++i) {
      const int from = map.token(w, i);
      const int64_t at = w * tokens + i;
      pick[static_cast<size_t>(at)] = from < 0 ? H * W : from;
      if (from >= 0) put[static_cast<size_t>(from)] = at;
    }
  }
  std::string qkv = l.reshape(l.input(0), {0, H * W, 3 * C});
  if (map.fillers() > 0) {  // adds one token, which fills the last windows
    const Tensor filler =
        l.has(2) ? l.constant(size_t{2}).reshape({1, 1, 3 * C}) : Tensor::zeros({1, 1, 3 * C});
    qkv = l.node("Concat", {qkv, l.for_every_image(filler, "padding")}, {{"axis", 1}});
  }
  qkv = l.node("Gather", {qkv, l.graph().ints(pick, "window_tokens")}, {{"axis", 1}});
  // [3, N, windows, heads, T, D]
  qkv = l.transpose(l.reshape(qkv, {0, windows, tokens, 3, heads, C / heads}), {3, 0, 1, 4, 2, 5});
  auto part = [&](int64_t i) { return part_of_qkv(l, qkv, i); };
  const std::string q = l.node("Mul", {part(0), l.graph().scalar(params.scale)});
  std::string scores = l.node("MatMul", {q, l.transpose(part(1), {0, 1, 2, 4, 3})});
  if (l.has(1))
    scores =
        l.node("Add", {scores, l.graph().constant(window_bias(l.constant(size_t{1}), params.window, heads),
                                                  "position_bias")});
  if (params.shift > 0)
    scores =
        l.node("Add", {scores, l.graph().constant(region_mask(map, static_cast<int>(tokens)), "shift_mask")});
  const std::string y = l.transpose(l.node("MatMul", {softmax(l, scores), part(2)}), {0, 1, 3, 2, 4});
  const std::string rows = l.reshape(y, {0, windows * tokens, C});
  l.result(
      l.reshape(l.node("Gather", {rows, l.graph().ints(put, "map_tokens")}, {{"axis", 1}}), {0, H, W, C}));
}

// The window of keys and values of every query is gathered by index.
SACCADE_LOWERING(neighbourhood_attention) {
  refuse_mask(l);
  const int64_t heads = l.integer("heads"), window = l.integer("window"), side = 2 * window - 1;
  const int64_t H = l.shape(0)[1], W = l.shape(0)[2], C = l.shape(0)[3] / 3, keys = window * window;
  const kernels::NeighbourAxis rows{static_cast<int>(H), static_cast<int>(window)},
      columns{static_cast<int>(W), static_cast<int>(window)};
  const Tensor table = l.has(1) ? l.constant(size_t{1}).contiguous() : Tensor();
  Tensor pick = Tensor::empty({H * W, keys}, DType::kI64), bias = Tensor::zeros({heads, H * W, 1, keys});
  for (int64_t q = 0; q < H * W; ++q) {
    const int64_t y = q / W, x = q % W;
    for (int64_t k = 0; k < keys; ++k) {
      const int64_t ky = rows.first_key(static_cast<int>(y)) + k / window,
                    kx = columns.first_key(static_cast<int>(x)) + k % window;
      pick.data<int64_t>()[q * keys + k] = ky * W + kx;
      for (int64_t h = 0; h < heads && table.defined(); ++h)
        bias.data<float>()[(h * H * W + q) * keys + k] =
            table.data<float>()[(h * side + ky - y + window - 1) * side + kx - x + window - 1];
    }
  }
  // [3, N, heads, H W, D]
  const std::string qkv =
      l.transpose(l.reshape(l.input(0), {0, H * W, 3, heads, C / heads}), {2, 0, 3, 1, 4});
  auto part = [&](int64_t i) { return part_of_qkv(l, qkv, i); };
  const std::string at = l.graph().constant(pick, "neighbours");
  auto windows = [&](int64_t i) { return l.node("Gather", {part(i), at}, {{"axis", 2}}); };
  const std::string q = l.reshape(l.node("Mul", {part(0), l.graph().scalar(l.number("scale"))}),
                                  {0, heads, H * W, 1, C / heads});
  std::string scores = l.node("MatMul", {q, l.transpose(windows(1), {0, 1, 2, 4, 3})});
  if (table.defined()) scores = l.node("Add", {scores, l.graph().constant(bias, "position_bias")});
  const std::string y =
      l.reshape(l.node("MatMul", {softmax(l, scores), windows(2)}), {0, heads, H * W, C / heads});
  l.result(l.reshape(l.transpose(y, {0, 2, 1, 3}), {0, H, W, C}));
}

}  // namespace
}  // namespace saccade
