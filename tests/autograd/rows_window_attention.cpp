// Rows of attention inside windows, whose reference rolls, pads and cuts the map like the papers' code, and
// of attention around tokens.
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

struct Case {
  int64_t N, H, W, heads, D, window, shift;
  int64_t table = 0;  // side of the window that the table is for; 0: no table
  bool padding = false;
  std::vector<bool> mask = {};  // N * H * W, empty: none
};

Tensor reference(const Case& s, const Tensors& in) {
  int64_t C = s.heads * s.D, w = s.window;
  int64_t Hp = (s.H + w - 1) / w * w, Wp = (s.W + w - 1) / w * w;
  // The official labels of the rolled map: equal inside a window where no edge of the map runs through it.
  auto band = [&](int64_t at, int64_t size) { return at < size - w ? 0 : at < size - s.shift ? 1 : 2; };
  auto label = [&](int64_t y, int64_t x) { return s.shift == 0 ? 0 : 3 * band(y, Hp) + band(x, Wp); };
  auto number = [&](int64_t n, int64_t y, int64_t x, int64_t c) {
    if (y < s.H && x < s.W) return at(in[0], {n, y, x, c});
    return in[2].defined() ? at(in[2], {c}) : 0.0;
  };
  return build({s.N, s.H, s.W, C}, [&](const std::vector<int64_t>& i) {
    int64_t n = i[0], h = i[3] / s.D;
    int64_t ry = (i[1] - s.shift + Hp) % Hp, rx = (i[2] - s.shift + Wp) % Wp;  // in the rolled map
    double total = 0, sum = 0;
    for (int64_t ky = ry / w * w; ky < ry / w * w + w; ++ky) {
      for (int64_t kx = rx / w * w; kx < rx / w * w + w; ++kx) {
        int64_t y = (ky + s.shift) % Hp, x = (kx + s.shift) % Wp;
        if (!s.mask.empty() && y < s.H && x < s.W && s.mask[static_cast<size_t>((n * s.H + y) * s.W + x)])
          continue;
        double score = 0;
        for (int64_t d = 0; d < s.D; ++d)
          score += at(in[0], {n, i[1], i[2], h * s.D + d}) * number(n, y, x, C + h * s.D + d);
        score /= std::sqrt(static_cast<double>(s.D));
        if (s.table > 0)
          score += at(in[1], {(ry - ky + s.table - 1) * (2 * s.table - 1) + rx - kx + s.table - 1, h});
        if (label(ry, rx) != label(ky, kx)) score -= 100;
        total += std::exp(score);
        sum += std::exp(score) * number(n, y, x, 2 * C + i[3]);
      }
    }
    return total > 0 ? sum / total : 0.0;
  });
}

Sample window_case(Rng& rng, const char* label, const Case& s) {
  int64_t C = s.heads * s.D;
  Tensors inputs{uniform(rng, {s.N, s.H, s.W, 3 * C}, -2, 2), Tensor(), Tensor()};
  if (s.table > 0) inputs[1] = uniform(rng, {(2 * s.table - 1) * (2 * s.table - 1), s.heads});
  if (s.padding) inputs[2] = uniform(rng, {3 * C});
  Tensor mask;
  if (!s.mask.empty()) {
    mask = Tensor::empty({s.N, s.H, s.W}, DType::kBool);
    for (size_t i = 0; i < s.mask.size(); ++i) mask.data<bool>()[i] = s.mask[i];
  }
  WindowAttentionOptions options{.heads = s.heads, .window = s.window, .shift = s.shift};
  auto fn = [mask, options](const Vars& v) { return window_attention(v[0], v[1], v[2], mask, options); };
  return {label, inputs, fn, [s](const Tensors& in) { return reference(s, in); }, {}, {1}};
}

Var zeros(const Shape& qkv, const Shape& table, const Shape& padding, const Tensor& mask,
          const WindowAttentionOptions& options) {
  return window_attention(Var(Tensor::zeros(qkv)), Var(Tensor::zeros(table)), Var(Tensor::zeros(padding)),
                          mask, options);
}

const Register kWindowAttention(Row{
    "window_attention",
    Bf16::kCompute,
    {.why = "f32: scores up to 10 are exact to 1e-6; bf16: qkv rounded to 4e-3, exponentiated"},
    [](Rng& rng) {
      std::vector<bool> some(2 * 3 * 5);
      for (size_t i = 0; i < some.size(); ++i) some[i] = i % 5 == 1 || (i >= 15 && i % 5 < 3);
      return std::vector<Sample>{
          window_case(rng, "whole windows", {2, 4, 6, 2, 3, 2, 0, 2}),
          window_case(rng, "shifted", {1, 6, 6, 1, 4, 3, 1, 3}),
          window_case(rng, "shifted by more than half", {1, 6, 6, 1, 2, 3, 2, 3}),
          window_case(rng, "filled up", {2, 4, 5, 2, 2, 3, 0, 3, true}),
          window_case(rng, "filled up and shifted", {1, 5, 7, 2, 2, 3, 1, 3, true}),
          window_case(rng, "filled up with zeros", {1, 4, 5, 1, 2, 3, 1, 3}),
          window_case(rng, "one window larger than the map, shifted", {1, 2, 3, 1, 2, 4, 2, 4, true}),
          window_case(rng, "the middle of a larger table", {1, 4, 4, 2, 2, 2, 0, 3}),
          window_case(rng, "no table", {1, 4, 4, 2, 2, 2, 1}),
          window_case(rng, "ignored keys, some windows wholly", {2, 3, 5, 2, 2, 3, 1, 3, true, some}),
          window_case(rng, "wide heads, several vectors", {1, 5, 5, 1, 19, 5, 2, 5, true}),
          window_case(rng, "Swin's window", {1, 9, 8, 1, 3, 7, 3, 7, true}),
          window_case(rng, "Swin's heads", {1, 7, 8, 1, 32, 7, 3, 7, true}),
          window_case(rng, "several images, an odd number of windows", {3, 5, 9, 2, 8, 3, 1, 4, true}),
          window_case(rng, "windows of several tiles", {1, 9, 10, 1, 4, 9, 2, 9, true}),
          window_case(rng, "heads of 64", {1, 4, 5, 1, 40, 4, 1, 4, true}),
          window_case(rng, "heads of 128", {1, 3, 4, 1, 72, 3, 1, 3, true}),
          window_case(rng, "heads too wide for tiles", {1, 2, 2, 1, 130, 2, 1, 2}),
          window_case(rng, "no images", {0, 4, 4, 1, 2, 2, 0, 2}),
      };
    },
    {{"channels",
      [] {
        zeros({1, 4, 4, 8}, {9, 1}, {8}, {}, {.heads = 1, .window = 2});
      },
      R"(\[window_attention\] qkv, got \[1, 4, 4, 8\] with 1 heads, expected \[N, H, W, 3C\])"},
     {"shift",
      [] {
        zeros({1, 4, 4, 6}, {9, 1}, {6}, {}, {.heads = 1, .window = 2, .shift = 2});
      },
      R"(\[window_attention\] window 2 shifted by 2, expected 0 <= shift < window)"},
     {"table",
      [] {
        zeros({1, 4, 4, 6}, {16, 1}, {6}, {}, {.heads = 1, .window = 2});
      },
      R"(\[window_attention\] table, got \[16, 1\], expected \[\(2t - 1\)\^2, 1\] with t at least the window 2)"},
     {"padding",
      [] {
        zeros({1, 4, 4, 6}, {9, 1}, {2}, {}, {.heads = 1, .window = 2});
      },
      R"(\[window_attention\] padding, got \[2\], expected \[6\])"},
     {"mask of floats",
      [] {
        zeros({1, 4, 4, 6}, {9, 1}, {6}, Tensor::zeros({1, 4, 4}), {.heads = 1, .window = 2});
      },
      R"(\[window_attention\] mask, got f32 \[1, 4, 4\], expected bool \[1, 4, 4\])"}}});

// ---- attention to the window around a token; the reference finds each query's window independently ----

struct Neighbourhood {
  int64_t N, H, W, heads, D, window;
  bool table = true;
  std::vector<bool> mask = {};  // N * H * W, empty: none
};

Tensor neighbourhood_reference(const Neighbourhood& s, const Tensors& in) {
  const int64_t C = s.heads * s.D;
  // The window's middle is as near as the map's edges allow.
  auto window_of = [&](int64_t at, int64_t size) {
    int64_t first = at - s.window / 2;
    while (first < 0) ++first;
    while (first + s.window > size) --first;
    return first;
  };
  return build({s.N, s.H, s.W, C}, [&](const std::vector<int64_t>& i) {
    const int64_t n = i[0], h = i[3] / s.D, top = window_of(i[1], s.H), left = window_of(i[2], s.W);
    double total = 0, sum = 0;
    for (int64_t y = top; y < top + s.window; ++y) {
      for (int64_t x = left; x < left + s.window; ++x) {
        if (!s.mask.empty() && s.mask[static_cast<size_t>((n * s.H + y) * s.W + x)]) continue;
        double score = 0;
        for (int64_t d = 0; d < s.D; ++d)
          score += at(in[0], {n, i[1], i[2], h * s.D + d}) * at(in[0], {n, y, x, C + h * s.D + d});
        score /= std::sqrt(static_cast<double>(s.D));
        if (s.table) score += at(in[1], {h, y - i[1] + s.window - 1, x - i[2] + s.window - 1});
        total += std::exp(score);
        sum += std::exp(score) * at(in[0], {n, y, x, 2 * C + i[3]});
      }
    }
    return total > 0 ? sum / total : 0.0;
  });
}

Sample neighbourhood_case(Rng& rng, const char* label, const Neighbourhood& s) {
  const int64_t side = 2 * s.window - 1;
  Tensors inputs{uniform(rng, {s.N, s.H, s.W, 3 * s.heads * s.D}, -2, 2), Tensor()};
  if (s.table) inputs[1] = uniform(rng, {s.heads, side, side});
  Tensor mask;
  if (!s.mask.empty()) {
    mask = Tensor::empty({s.N, s.H, s.W}, DType::kBool);
    for (size_t i = 0; i < s.mask.size(); ++i) mask.data<bool>()[i] = s.mask[i];
  }
  NeighbourhoodAttentionOptions options{.heads = s.heads, .window = s.window};
  auto fn = [mask, options](const Vars& v) { return neighbourhood_attention(v[0], v[1], mask, options); };
  return {label, inputs, fn, [s](const Tensors& in) { return neighbourhood_reference(s, in); }, {}, {1}};
}

Var of_zeros(const Shape& qkv, const Shape& table, const Tensor& mask, int64_t window) {
  return neighbourhood_attention(Var(Tensor::zeros(qkv)), Var(Tensor::zeros(table)), mask,
                                 {.heads = 1, .window = window});
}

const Register kNeighbourhoodAttention(Row{
    "neighbourhood_attention",
    Bf16::kCompute,
    {.why = "f32: scores up to 10 are exact to 1e-6; bf16: qkv rounded to 4e-3, exponentiated"},
    [](Rng& rng) {
      std::vector<bool> some(2 * 4 * 5);
      for (size_t i = 0; i < some.size(); ++i) some[i] = i % 5 == 1 || (i >= 20 && i % 5 < 3);
      return std::vector<Sample>{
          neighbourhood_case(rng, "windows of 3", {2, 5, 6, 2, 3, 3}),
          neighbourhood_case(rng, "the map is one window", {1, 3, 3, 2, 4, 3}),
          neighbourhood_case(rng, "one row of windows", {1, 5, 9, 1, 2, 5}),
          neighbourhood_case(rng, "no table", {1, 4, 5, 2, 2, 3, false}),
          neighbourhood_case(rng, "a window of one token", {1, 2, 3, 1, 2, 1}),
          neighbourhood_case(rng, "ignored keys, some windows wholly", {2, 4, 5, 2, 2, 3, true, some}),
          neighbourhood_case(rng, "wide heads, several vectors", {1, 3, 4, 1, 19, 3}),
          neighbourhood_case(rng, "DAT++'s window", {1, 7, 9, 1, 2, 7}),
          neighbourhood_case(rng, "DAT++'s window, tiles of a GPU that overlap", {1, 9, 9, 1, 2, 7}),
          neighbourhood_case(rng, "DAT++'s heads, tiles of all kinds", {1, 8, 18, 1, 2, 5}),
          neighbourhood_case(rng, "several images", {3, 4, 4, 2, 4, 3}),
          neighbourhood_case(rng, "no images", {0, 4, 4, 1, 2, 3}),
      };
    },
    {{"channels",
      [] {
        of_zeros({1, 4, 4, 8}, {1, 5, 5}, {}, 3);
      },
      R"(\[neighbourhood_attention\] qkv, got \[1, 4, 4, 8\] with 1 heads, expected \[N, H, W, 3C\])"},
     {"an even window",
      [] {
        of_zeros({1, 4, 4, 6}, {1, 7, 7}, {}, 4);
      },
      R"(\[neighbourhood_attention\] a window of 4 in a map of 4 x 4, expected an odd one that fits)"},
     {"a small map",
      [] {
        of_zeros({1, 4, 2, 6}, {1, 5, 5}, {}, 3);
      },
      R"(\[neighbourhood_attention\] a window of 3 in a map of 4 x 2, expected an odd one that fits)"},
     {"table",
      [] {
        of_zeros({1, 4, 4, 6}, {1, 3, 3}, {}, 3);
      },
      R"(\[neighbourhood_attention\] table, got \[1, 3, 3\], expected \[1, 5, 5\])"},
     {"mask of floats",
      [] {
        of_zeros({1, 4, 4, 6}, {1, 5, 5}, Tensor::zeros({1, 4, 4}), 3);
      },
      R"(\[neighbourhood_attention\] mask, got f32 \[1, 4, 4\], expected bool \[1, 4, 4\])"}}});

}  // namespace
}  // namespace saccade::optable
