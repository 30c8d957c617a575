// Rows of the normalisations. The relu samples shift by biases of either sign, so that no value is at the
// kink.
#include <cmath>

#include "autograd/ops.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

// Alternates between -far and +far.
Tensor alternating(int64_t n, double far) {
  return build({n}, [&](const std::vector<int64_t>& i) { return i[0] % 2 == 0 ? far : -far; });
}

// Mean and variance of the elements of t whose index `pick` accepts.
struct Moments {
  double mean = 0, variance = 0;
};
template <class Pick>
Moments moments(const Tensor& t, Pick pick) {
  Moments m;
  double n = 0;
  for_each_index(t.shape(), [&](const std::vector<int64_t>& i) {
    if (pick(i)) m.mean += at(t, i), n += 1;
  });
  m.mean /= n;
  for_each_index(t.shape(), [&](const std::vector<int64_t>& i) {
    if (pick(i)) m.variance += (at(t, i) - m.mean) * (at(t, i) - m.mean);
  });
  m.variance /= n;
  return m;
}

constexpr double kEps = 1e-5;

Sample batch_norm_case(Rng& rng, const char* label, const Shape& x, bool training, Activation act) {
  int64_t c = x[-1];
  Tensor mean = uniform(rng, {c}), var = uniform(rng, {c}, 0.5, 2);
  // Normalised values stay below sqrt(number of rows), here at most 5, and weights below 1.5.
  Tensor bias = act == Activation::kRelu ? alternating(c, 12) : uniform(rng, {c});
  auto reference = [=](const Tensors& in) {
    std::vector<Moments> all;
    for (int64_t k = 0; k < c && in[0].numel() > 0; ++k) {
      all.push_back(training ? moments(in[0], [&](const std::vector<int64_t>& i) { return i.back() == k; })
                             : Moments{at(mean, {k}), at(var, {k})});
    }
    return build(x, [&](const std::vector<int64_t>& i) {
      const Moments& m = all[static_cast<size_t>(i.back())];
      double z = (at(in[0], i) - m.mean) / std::sqrt(m.variance + kEps) * at(in[1], {i.back()}) +
                 at(in[2], {i.back()});
      return activation_of(act, z);
    });
  };
  return {label,
          {uniform(rng, x, -1, 2), uniform(rng, {c}, 0.5, 1.5), bias},
          [=](const Vars& v) {
            const DType dtype = v[0].dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
            Tensor m = mean.to(dtype).to(v[0].device()).clone(), s = var.to(dtype).to(v[0].device()).clone();
            return batch_norm(v[0], v[1], v[2], m, s, training, 0.1, kEps, act);
          },
          reference,
          {},
          {1, 2}};
}

const Register kBatchNorm(Row{
    "batch_norm",
    Bf16::kInputs,
    {.why = "f32: statistics of some hundred values, gradients cancel by a factor of about 10; bf16: "
            "statistics are f32, the result is rounded once"},
    [](Rng& rng) {
      std::vector<Sample> samples{
          batch_norm_case(rng, "maps", {2, 4, 3, 5}, true, Activation::kNone),
          batch_norm_case(rng, "maps, relu", {2, 3, 3, 4}, true, Activation::kRelu),
          batch_norm_case(rng, "rows", {9, 3}, true, Activation::kNone),
          batch_norm_case(rng, "several blocks", {150, 2}, true, Activation::kNone),
          batch_norm_case(rng, "several runs", {1100, 3}, true, Activation::kNone),
          batch_norm_case(rng, "several tiles", {5, 67}, true, Activation::kNone),
          batch_norm_case(rng, "one channel", {3, 5, 1}, true, Activation::kNone),
          batch_norm_case(rng, "packs", {141, 16}, true, Activation::kNone),
          batch_norm_case(rng, "packs, tiles, relu", {25, 264}, true, Activation::kRelu),
          batch_norm_case(rng, "fixed statistics", {2, 3, 2, 7}, false, Activation::kNone),
          batch_norm_case(rng, "fixed statistics, relu", {2, 3, 2, 6}, false, Activation::kRelu),
          batch_norm_case(rng, "no images", {0, 3, 3, 4}, true, Activation::kNone),
          batch_norm_case(rng, "no images, fixed", {0, 3, 3, 4}, false, Activation::kRelu),
      };
      for (auto [act, name] : activations()) {
        samples.push_back(batch_norm_case(rng, name, {3, 5, 4}, true, act));
        samples.push_back(batch_norm_case(rng, name, {7, 3}, false, act));
      }
      return samples;
    },
    {{"weight",
      [] {
        Tensor m = Tensor::zeros({3}), v = Tensor::zeros({3});
        batch_norm(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({4})), Var(Tensor::zeros({3})), m, v, true);
      },
      R"(\[batch_norm\] weight, got shape \[4\], expected \[3\])"},
     {"running statistics",
      [] {
        Tensor m = Tensor::zeros({2}), v = Tensor::zeros({3});
        batch_norm(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({3})), Var(Tensor::zeros({3})), m, v, true);
      },
      R"(\[batch_norm\] running_mean, got shape \[2\], expected \[3\])"}}});

Sample affine_case(Rng& rng, const char* label, const Shape& x, Activation act) {
  int64_t c = x[-1];
  Tensor scale = uniform(rng, {c}), shift = act == Activation::kRelu ? alternating(c, 2) : uniform(rng, {c});
  auto reference = [=](const Tensors& in) {
    return build(x, [&](const std::vector<int64_t>& i) {
      double z = at(in[0], i) * at(scale, {i.back()}) + at(shift, {i.back()});
      return activation_of(act, z);
    });
  };
  return {label,
          {uniform(rng, x)},
          [=](const Vars& v) { return channel_affine(v[0], scale, shift, act); },
          reference};
}

const Register kChannelAffine(Row{
    "channel_affine",
    Bf16::kInputs,
    {.why = "one product and one sum; bf16: one rounding of the result"},
    [](Rng& rng) {
      std::vector<Sample> samples{
          affine_case(rng, "plain", {2, 3, 4, 5}, Activation::kNone),
          affine_case(rng, "relu", {2, 3, 4, 6}, Activation::kRelu),
          affine_case(rng, "many rows", {70, 3}, Activation::kRelu),
          affine_case(rng, "one channel", {5, 1}, Activation::kNone),
          affine_case(rng, "no images", {0, 3, 4, 5}, Activation::kNone),
      };
      for (auto [act, name] : activations()) samples.push_back(affine_case(rng, name, {3, 7, 4}, act));
      return samples;
    },
    {{"scale",
      [] {
        channel_affine(Var(Tensor::zeros({2, 3})), Tensor::zeros({4}), Tensor::zeros({3}));
      },
      R"(\[channel_affine\] scale, got shape \[4\], expected \[3\])"}}});

Sample affine_add_relu_case(Rng& rng, const char* label, const Shape& x) {
  int64_t c = x[-1];
  Tensor scale = uniform(rng, {c}), shift = alternating(c, 4);  // away from the kink
  auto reference = [=](const Tensors& in) {
    return build(x, [&](const std::vector<int64_t>& i) {
      double z = at(in[0], i) * at(scale, {i.back()}) + at(shift, {i.back()}) + at(in[1], i);
      return activation_of(Activation::kRelu, z);
    });
  };
  return {label,
          {uniform(rng, x), uniform(rng, x)},
          [=](const Vars& v) { return affine_add_relu(v[0], scale, shift, v[1]); },
          reference};
}

const Register kAffineAddRelu(Row{
    "affine_add_relu",
    Bf16::kInputs,
    {.why = "one product and two sums; bf16: a rounding of the product and one of the result"},
    [](Rng& rng) {
      return std::vector<Sample>{affine_add_relu_case(rng, "a map", {2, 3, 4, 16}),
                                 affine_add_relu_case(rng, "odd channels", {70, 3}),
                                 affine_add_relu_case(rng, "no images", {0, 3, 4, 5})};
    },
    {{"residual",
      [] {
        affine_add_relu(Var(Tensor::zeros({2, 3})), Tensor::zeros({3}), Tensor::zeros({3}),
                        Var(Tensor::zeros({2, 4})));
      },
      R"(\[affine_add_relu\] residual, got shape \[2, 4\], expected \[2, 3\])"}}});

Sample group_norm_case(Rng& rng, const char* label, const Shape& x, int64_t groups) {
  int64_t c = x[-1], size = c / groups;
  auto reference = [=](const Tensors& in) {
    std::vector<Moments> all;
    for (int64_t n = 0; n < x[0]; ++n) {
      for (int64_t g = 0; g < groups; ++g)
        all.push_back(
            moments(in[0], [&](const std::vector<int64_t>& i) { return i[0] == n && i.back() / size == g; }));
    }
    return build(x, [&](const std::vector<int64_t>& i) {
      const Moments& m = all[static_cast<size_t>(i[0] * groups + i.back() / size)];
      return (at(in[0], i) - m.mean) / std::sqrt(m.variance + kEps) * at(in[1], {i.back()}) +
             at(in[2], {i.back()});
    });
  };
  return {label,
          {uniform(rng, x, -1, 2), uniform(rng, {c}), uniform(rng, {c})},
          [=](const Vars& v) { return group_norm(v[0], v[1], v[2], groups, kEps); },
          reference,
          {},
          {1, 2}};
}

const Register kGroupNorm(Row{
    "group_norm",
    Bf16::kInputs,
    {.why = "as batch_norm"},
    [](Rng& rng) {
      return std::vector<Sample>{
          group_norm_case(rng, "maps", {2, 3, 4, 6}, 3),
          group_norm_case(rng, "one group", {3, 5, 4}, 1),
          group_norm_case(rng, "a group a channel", {2, 6, 3}, 3),
          group_norm_case(rng, "several blocks", {2, 140, 4}, 2),
          group_norm_case(rng, "several tiles", {1, 3, 70}, 7),
          group_norm_case(rng, "packs across groups", {1, 270, 24}, 6),
          group_norm_case(rng, "a wide group", {1, 270, 24}, 1),
          group_norm_case(rng, "packs, tiles", {2, 9, 264}, 8),
          group_norm_case(rng, "no images", {0, 3, 3, 4}, 2),
      };
    },
    {{"groups",
      [] {
        group_norm(Var(Tensor::zeros({2, 3, 4})), Var(Tensor::zeros({4})), Var(Tensor::zeros({4})), 3);
      },
      R"(\[group_norm\] groups, got 3, expected a divisor of 4 channels)"}}});

Sample layer_norm_case(Rng& rng, const char* label, const Shape& x, bool residual) {
  int64_t c = x[-1];
  auto reference = [=](const Tensors& in) {
    Tensor sum = build(x, [&](const std::vector<int64_t>& i) {
      return at(in[0], i) + (in[3].defined() ? at(in[3], i) : 0);
    });
    return build(x, [&](std::vector<int64_t> i) {
      int64_t column = i.back();
      double mean = 0, variance = 0, value = at(sum, i);
      for (i.back() = 0; i.back() < c; ++i.back()) mean += at(sum, i) / static_cast<double>(c);
      for (i.back() = 0; i.back() < c; ++i.back())
        variance += (at(sum, i) - mean) * (at(sum, i) - mean) / static_cast<double>(c);
      return (value - mean) / std::sqrt(variance + kEps) * at(in[1], {column}) + at(in[2], {column});
    });
  };
  return {
      label,
      {uniform(rng, x, -1, 2), uniform(rng, {c}), uniform(rng, {c}), residual ? uniform(rng, x) : Tensor()},
      [](const Vars& v) { return layer_norm(v[0], v[1], v[2], kEps, v[3]); },
      reference,
      {},
      {1, 2}};
}

// In mixed dtypes the residual stays f32.
Sample dropout_norm_case(Rng& rng, const char* label, const Shape& x, double p, bool mixed) {
  constexpr uint64_t kDropoutKey = 0x1234567890ABCDEFull, kCall = 7;
  Sample plain = layer_norm_case(rng, label, x, true);
  auto reference = [=, of_sum = plain.reference](const Tensors& in) {
    Tensors dropped = in;
    int64_t flat = 0;
    dropped[0] = build(x, [&](const std::vector<int64_t>& i) {
      const uint32_t bits = Philox::generate(kDropoutKey, kCall, static_cast<uint64_t>(flat / 4)).x[flat % 4];
      ++flat;
      return p > 0 && uniform_from_bits(bits) < static_cast<float>(p) ? 0.0 : at(in[0], i) / (1 - p);
    });
    return of_sum(dropped);
  };
  return {label,
          plain.inputs,
          [=](const Vars& v) {
            ExecutionScope scope;
            execution().rng_key = kDropoutKey;
            execution().rng_calls = kCall;
            return dropout_norm(v[0], p, true, v[3], v[1], v[2], kEps);
          },
          reference,
          {},
          mixed ? std::vector<int>{1, 2, 3} : std::vector<int>{1, 2}};
}

const Register kDropoutNorm(Row{"dropout_norm",
                                Bf16::kInputs,
                                {.why = "as layer_norm; bf16: what dropout keeps is rounded once more"},
                                [](Rng& rng) {
                                  return std::vector<Sample>{
                                      dropout_norm_case(rng, "tokens", {2, 3, 8}, 0.2, false),
                                      dropout_norm_case(rng, "mixed", {37, 64}, 0.1, true),
                                      dropout_norm_case(rng, "mixed, no dropout", {5, 64}, 0, true),
                                      dropout_norm_case(rng, "a warp a row", {19, 160}, 0.5, false),
                                      dropout_norm_case(rng, "odd, mixed", {4, 31}, 0.3, true),
                                      dropout_norm_case(rng, "a block a row", {2, 1056}, 0.1, true),
                                      dropout_norm_case(rng, "no rows", {0, 4}, 0.1, false),
                                  };
                                },
                                {{"probability",
                                  [] {
                                    Var x(Tensor::zeros({2, 3})), w(Tensor::zeros({3}));
                                    dropout_norm(x, 1.5, true, x, w, w);
                                  },
                                  R"(\[dropout_norm\] probability 1.5, expected 0 <= p <= 1)"}}});

const Register kLayerNorm(Row{
    "layer_norm",
    Bf16::kInputs,
    {.why = "f32: as batch_norm; bf16: the sum with the residual and the result are rounded once each"},
    [](Rng& rng) {
      return std::vector<Sample>{
          layer_norm_case(rng, "tokens", {2, 3, 8}, false),
          layer_norm_case(rng, "residual", {2, 3, 8}, true),
          layer_norm_case(rng, "odd", {4, 31}, true),
          layer_norm_case(rng, "several tiles", {3, 70}, false),
          layer_norm_case(rng, "several blocks", {150, 9}, true),
          layer_norm_case(rng, "one row", {1, 5}, false),
          layer_norm_case(rng, "half a warp a row", {37, 64}, true),
          layer_norm_case(rng, "a warp a row", {19, 160}, true),
          layer_norm_case(rng, "a block a row backward", {3, 520}, true),
          layer_norm_case(rng, "a block a row", {1, 1056}, true),
          layer_norm_case(rng, "a block a row, odd", {1, 1031}, false),
          layer_norm_case(rng, "no rows", {0, 4}, true),
      };
    },
    {{"residual",
      [] {
        layer_norm(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({3})), Var(Tensor::zeros({3})), kEps,
                   Var(Tensor::zeros({1, 3})));
      },
      R"(\[layer_norm\] residual, got shape \[1, 3\], expected \[2, 3\])"}}});

}  // namespace
}  // namespace saccade::optable
