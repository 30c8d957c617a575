// Rows of linear and matmul.
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

Sample linear_case(Rng& rng, const char* label, const Shape& x, int64_t n, bool bias, Activation act,
                   ProductDtype dtype = ProductDtype::kCompute) {
  int64_t k = x[-1];
  auto reference = [n, k, act](const Tensors& in) {
    Shape shape = in[0].shape();
    shape[-1] = n;
    return build(shape, [&](std::vector<int64_t> i) {
      int64_t column = i.back();
      double z = in[2].defined() ? at(in[2], {column}) : 0;
      for (int64_t j = 0; j < k; ++j) {
        i.back() = j;
        z += at(in[0], i) * at(in[1], {column, j});
      }
      return activation_of(act, z);
    });
  };
  Tensor w = uniform(rng, {n, k}), b = bias ? uniform(rng, {n}) : Tensor();
  Tensor input = uniform(rng, x);
  // Relu has a kink at 0: a large bias of either sign keeps every sum away from it.
  if (act == Activation::kRelu && bias) {
    b = build({n}, [&](const std::vector<int64_t>& i) {
      return (i[0] % 2 == 0 ? 1.0 : -1.0) * (static_cast<double>(k) + 0.5);
    });
  }
  return {
      label, {input, w, b}, [=](const Vars& v) { return linear(v[0], v[1], v[2], act, dtype); }, reference};
}

const Register kLinear(Row{
    "linear",
    Bf16::kCompute,
    {.why = "f32: sums of up to 600 products in any order; bf16: one rounding (2^-9) of each product's "
            "factors and of the result, cancellation inside the sum"},
    [](Rng& rng) {
      std::vector<Sample> samples{
          linear_case(rng, "plain", {3, 5, 7}, 4, true, Activation::kNone),
          linear_case(rng, "no bias", {9, 31}, 33, false, Activation::kNone),
          linear_case(rng, "relu", {2, 3, 4}, 6, true, Activation::kRelu),
          linear_case(rng, "gelu", {5, 6}, 7, true, Activation::kGelu),
          linear_case(rng, "gelu without bias", {3, 17}, 5, false, Activation::kGelu),
          linear_case(rng, "one row", {1, 3}, 2, true, Activation::kNone),
          linear_case(rng, "a vector", {8}, 3, true, Activation::kRelu),
          linear_case(rng, "one by one", {4, 1}, 1, true, Activation::kNone),
          linear_case(rng, "many rows", {601, 3}, 5, true, Activation::kNone),
          linear_case(rng, "in f32", {3, 5, 8}, 16, true, Activation::kNone, ProductDtype::kSums),
          linear_case(rng, "in f32, odd", {7, 5}, 3, true, Activation::kGelu, ProductDtype::kSums),
          linear_case(rng, "no rows", {2, 0, 3}, 4, true, Activation::kRelu),
      };
      for (auto [act, name] : activations()) samples.push_back(linear_case(rng, name, {6, 5}, 8, true, act));
      return samples;
    },
    {{"wrong width",
      [] {
        linear(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({5, 4})), Var());
      },
      R"(\[linear\] x, got shape \[2, 3\], expected \[\.\.\., 4\])"},
     {"wrong bias",
      [] {
        linear(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({5, 3})), Var(Tensor::zeros({3})));
      },
      R"(\[linear\] bias, got shape \[3\], expected \[5\])"},
     {"weight of rank 1",
      [] {
        linear(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({3})), Var());
      },
      R"(\[linear\] weight, got shape \[3\])"}}});

Sample matmul_case(Rng& rng, const char* label, const Shape& a, const Shape& b) {
  auto reference = [](const Tensors& in) {
    const Tensor &p = in[0], &q = in[1];
    Shape shape = broadcast_shapes(
        Shape(std::span<const int64_t>(p.shape().begin(), static_cast<size_t>(p.rank() - 2))),
        Shape(std::span<const int64_t>(q.shape().begin(), static_cast<size_t>(q.rank() - 2))), "reference");
    shape.push_back(p.dim(-2));
    shape.push_back(q.dim(-1));
    return build(shape, [&](const std::vector<int64_t>& i) {
      double sum = 0;
      auto left = i, right = i;
      for (int64_t k = 0; k < p.dim(-1); ++k) {
        left.back() = k;
        right[right.size() - 2] = k;
        sum += at(p, left) * at(q, right);
      }
      return sum;
    });
  };
  return {
      label, {uniform(rng, a), uniform(rng, b)}, [](const Vars& v) { return matmul(v[0], v[1]); }, reference};
}

const Register kMatmul(Row{"matmul",
                           Bf16::kCompute,
                           {.why = "as linear"},
                           [](Rng& rng) {
                             return std::vector<Sample>{
                                 matmul_case(rng, "two matrices", {4, 7}, {7, 5}),
                                 matmul_case(rng, "a batch", {3, 5, 6}, {3, 6, 2}),
                                 matmul_case(rng, "broadcast right", {3, 5, 6}, {6, 4}),
                                 matmul_case(rng, "broadcast left", {5, 6}, {3, 6, 4}),
                                 matmul_case(rng, "broadcast both", {2, 1, 3, 4}, {3, 4, 5}),
                                 matmul_case(rng, "broadcast in the middle", {2, 3, 2, 3}, {2, 1, 3, 2}),
                                 matmul_case(rng, "vectors", {1, 9}, {9, 1}),
                                 matmul_case(rng, "odd sizes", {2, 17, 33}, {2, 33, 3}),
                                 matmul_case(rng, "no matrices", {0, 2, 3}, {0, 3, 2}),
                                 matmul_case(rng, "nothing to sum", {2, 2, 0}, {2, 0, 3}),
                             };
                           },
                           {{"inner sizes differ",
                             [] {
                               matmul(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({4, 2})));
                             },
                             R"(\[matmul\] got shapes \[2, 3\] and \[4, 2\])"},
                            {"batches differ",
                             [] {
                               matmul(Var(Tensor::zeros({2, 2, 3})), Var(Tensor::zeros({3, 3, 2})));
                             },
                             R"(matmul)"}}});

}  // namespace
}  // namespace saccade::optable
