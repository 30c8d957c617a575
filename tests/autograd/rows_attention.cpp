// Rows of attention.
#include <cmath>

#include "autograd/ops.h"
#include "autograd/scope.h"
#include "core/kernels/attention/attention.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

struct AttentionShape {
  int64_t N, Q, S, heads, D, Dv;
  Shape bias = {};              // rank 0: none
  std::vector<bool> mask = {};  // N * S, empty: none
  double dropout = 0;
};

constexpr uint64_t kKey = 77;

Sample attention_case(Rng& rng, const char* label, const AttentionShape& s) {
  Tensors inputs{uniform(rng, {s.N, s.Q, s.heads * s.D}, -2, 2),
                 uniform(rng, {s.N, s.S, s.heads * s.D}, -2, 2), uniform(rng, {s.N, s.S, s.heads * s.Dv}),
                 Tensor()};
  if (s.bias.rank() > 0) inputs[3] = uniform(rng, s.bias);
  Tensor mask;
  if (!s.mask.empty()) {
    mask = Tensor::empty({s.N, s.S}, DType::kBool);
    for (size_t i = 0; i < s.mask.size(); ++i) mask.data<bool>()[i] = s.mask[i];
  }
  AttentionOptions options{.heads = s.heads, .dropout = s.dropout, .training = true};
  auto fn = [mask, options](const Vars& v) {
    ExecutionScope scope;  // every call draws the same dropout mask
    execution().rng_key = kKey;
    execution().rng_calls = 0;
    return attention(v[0], v[1], v[2], mask, v[3], options);
  };
  auto reference = [s, mask](const Tensors& in) {
    kernels::AttentionParams params{
        .heads = s.heads, .scale = 1, .dropout = s.dropout, .key = kKey, .call = 0};
    return build({s.N, s.Q, s.heads * s.Dv}, [&](const std::vector<int64_t>& i) {
      int64_t n = i[0], q = i[1], h = i[2] / s.Dv;
      double total = 0, sum = 0;
      for (int64_t k = 0; k < s.S; ++k) {
        if (mask.defined() && mask.data<bool>()[n * s.S + k]) continue;
        double score = 0;
        for (int64_t d = 0; d < s.D; ++d)
          score += at(in[0], {n, q, h * s.D + d}) * at(in[1], {n, k, h * s.D + d});
        score /= std::sqrt(static_cast<double>(s.D));
        if (in[3].defined()) {
          const Shape& b = in[3].shape();
          int64_t hb = b[-3] == 1 ? 0 : h;
          score += b.rank() == 3 ? at(in[3], {hb, q, k}) : at(in[3], {b[0] == 1 ? 0 : n, hb, q, k});
        }
        double weight = std::exp(score);
        total += weight;
        if (s.dropout > 0) {
          // The mask is drawn in f32: kept weights grow by the f32 value of 1 / (1 - p).
          weight *=
              static_cast<double>(kernels::Dropout(params).factor_of((n * s.heads + h) * s.Q + q, k, s.S));
        }
        sum += weight * at(in[2], {n, k, i[2]});
      }
      return total > 0 ? sum / total : 0.0;
    });
  };
  return {label, inputs, fn, reference, {}, {3}};
}

// Query, key and value are slices of the channels of one tensor, so their rows are not contiguous.
Sample sliced_case(Rng& rng, const char* label, const AttentionShape& s) {
  const Sample whole = attention_case(rng, label, s);
  const int64_t E = s.heads * s.D, all = 2 * E + s.heads * s.Dv;
  auto parts = [=](const Tensor& t) {
    return Tensors{t.slice(2, 0, E).contiguous(), t.slice(2, E, 2 * E).contiguous(),
                   t.slice(2, 2 * E, all).contiguous(), Tensor()};
  };
  return {
      label,
      {uniform(rng, {s.N, s.Q, all}, -2, 2)},
      [=](const Vars& v) {
        return whole.fn({slice(v[0], 2, 0, E), slice(v[0], 2, E, 2 * E), slice(v[0], 2, 2 * E, all), Var()});
      },
      [=](const Tensors& in) { return whole.reference(parts(in[0])); }};
}

Var attention_zeros(const Shape& q, const Shape& k, const Shape& v, const Tensor& mask, const Var& bias,
                    int64_t heads) {
  return attention(Var(Tensor::zeros(q)), Var(Tensor::zeros(k)), Var(Tensor::zeros(v)), mask, bias,
                   {.heads = heads});
}

const Register kAttention(Row{
    "attention",
    Bf16::kCompute,
    {.why = "f32: scores up to 10 are exact to 1e-6; bf16: q, k, v rounded to 4e-3 each, exponentiated"},
    [](Rng& rng) {
      return std::vector<Sample>{
          attention_case(rng, "two heads", {2, 3, 5, 2, 4, 3}),
          attention_case(rng, "a row block and a tail", {1, 37, 21, 1, 3, 2}),
          attention_case(rng, "wide heads", {1, 3, 19, 1, 17, 33}),
          attention_case(rng, "bias per head", {2, 3, 4, 2, 4, 2, {2, 3, 4}}),
          attention_case(rng, "bias shared by the heads", {2, 3, 4, 2, 4, 2, {1, 3, 4}}),
          attention_case(rng, "bias per image and head", {2, 3, 4, 2, 4, 2, {2, 2, 3, 4}}),
          attention_case(rng, "bias per image", {2, 3, 4, 2, 4, 2, {2, 1, 3, 4}}),
          attention_case(rng, "padding, one image wholly padded",
                         {2, 2, 3, 2, 4, 2, {}, {false, true, false, true, true, true}}),
          attention_case(rng, "padding and bias", {1, 2, 3, 2, 2, 2, {2, 2, 3}, {false, true, false}}),
          attention_case(rng, "dropout", {2, 4, 7, 2, 4, 2, {}, {}, 0.3}),
          attention_case(rng, "several tiles of queries and keys", {1, 70, 67, 2, 16, 16}),
          attention_case(rng, "several tiles, dropout", {1, 33, 70, 1, 24, 32, {}, {}, 0.25}),
          attention_case(rng, "several tiles, dropout, shared bias",
                         {1, 33, 70, 2, 24, 32, {1, 33, 70}, {}, 0.25}),
          sliced_case(rng, "slices of one tensor", {2, 9, 9, 2, 8, 8}),
          sliced_case(rng, "slices of one tensor, odd channels", {1, 4, 4, 1, 3, 5}),
          sliced_case(rng, "slices of one tensor, several tiles", {1, 70, 70, 2, 16, 16}),
          attention_case(rng, "heads of 64, bias per head", {2, 18, 66, 1, 64, 40, {1, 18, 66}}),
          attention_case(rng, "heads of 128, dropout, bias per image",
                         {1, 35, 40, 1, 72, 128, {1, 1, 35, 40}, {}, 0.5}),
          attention_case(rng, "heads too wide for tiles", {1, 2, 3, 1, 130, 4}),
          attention_case(rng, "no queries", {1, 0, 3, 1, 2, 2}),
          attention_case(rng, "no keys", {1, 2, 0, 1, 2, 2}),
          attention_case(rng, "no images", {0, 2, 3, 1, 2, 2}),
      };
    },
    {{"heads",
      [] {
        attention_zeros({1, 2, 6}, {1, 3, 6}, {1, 3, 6}, {}, {}, 4);
      },
      R"(\[attention\] 4 heads, expected a divisor of both 6 and 6 channels)"},
     {"key",
      [] {
        attention_zeros({1, 2, 6}, {1, 3, 4}, {1, 3, 6}, {}, {}, 2);
      },
      R"(\[attention\] key, got \[1, 3, 4\], expected \[1, S, 6\])"},
     {"value",
      [] {
        attention_zeros({1, 2, 6}, {1, 3, 6}, {1, 2, 6}, {}, {}, 2);
      },
      R"(\[attention\] value, got \[1, 2, 6\], expected \[1, 3, Ev\])"},
     {"mask of floats",
      [] {
        attention_zeros({1, 2, 6}, {1, 3, 6}, {1, 3, 6}, Tensor::zeros({1, 3}), {}, 2);
      },
      R"(\[attention\] key padding mask, got f32 \[1, 3\], expected bool \[1, 3\])"},
     {"bias",
      [] {
        attention_zeros({1, 2, 6}, {1, 3, 6}, {1, 3, 6}, {}, Var(Tensor::zeros({2, 3, 3})), 2);
      },
      R"(\[attention\] bias, got \[2, 3, 3\])"}}});

}  // namespace
}  // namespace saccade::optable
