// Row of attention to the window around a token. The reference finds the window of every query anew.
#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

struct Neighbourhood {
  int64_t N, H, W, heads, D, window;
  bool table = true;
  std::vector<bool> mask = {};  // N * H * W, empty: none
};

Tensor neighbourhood_reference(const Neighbourhood& s, const Tensors& in) {
  const int64_t C = s.heads * s.D;
  // As near to the middle of the window as the map's edges allow.
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
      R"(\[neighbourhood_attention\] a window of 4 in a map of 4 x 4, expected an odd one that fits in)"},
     {"a small map",
      [] {
        of_zeros({1, 4, 2, 6}, {1, 5, 5}, {}, 3);
      },
      R"(\[neighbourhood_attention\] a window of 3 in a map of 4 x 2, expected an odd one that fits in)"},
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
