// Op table rows: elementwise ops of two tensors.
#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

using BinaryVar = Var (*)(const Var&, const Var&);

// The shapes reach every path of the kernel: flat, row vector, scalar, inner and outer broadcast, both sides.
std::vector<Sample> samples_of(Rng& rng, BinaryVar op, double (*f)(double, double), double low, double gap) {
  std::vector<Sample> out;
  auto add_sample = [&](const char* label, Shape a, Shape b) {
    Tensor x = uniform(rng, a, low, 2), y = uniform(rng, b, low, 2);
    if (gap > 0) {  // keep pairs apart from ties
      Tensor all = distinct(rng, {a.numel() + b.numel()});
      x = all.slice(0, 0, a.numel()).clone().reshape(a);
      y = all.slice(0, a.numel(), a.numel() + b.numel()).clone().reshape(b);
    }
    out.push_back({label,
                   {x, y},
                   [op](const Vars& v) { return op(v[0], v[1]); },
                   [f](const Tensors& in) {
                     return build(broadcast_shapes(in[0].shape(), in[1].shape(), "reference"),
                                  [&](auto& i) { return f(at(in[0], i), at(in[1], i)); });
                   }});
  };
  add_sample("same shape", {5, 7}, {5, 7});
  add_sample("row vector", {3, 4, 17}, {17});
  add_sample("scalar", {6, 5}, {});
  add_sample("scalar first", {}, {9});
  add_sample("column", {4, 6}, {4, 1});
  add_sample("outer", {4, 1}, {1, 6});
  add_sample("middle", {2, 1, 3, 5}, {4, 1, 5});
  add_sample("batch 1", {1, 1, 8}, {1, 3, 8});
  add_sample("packs", {3, 16}, {3, 16});
  add_sample("packs, row vector", {2, 3, 24}, {24});
  add_sample("packs, column", {5, 16}, {5, 1});
  add_sample("packs, scalar", {4, 8}, {});
  add_sample("no elements", {0, 4}, {4});
  add_sample("broadcast to no elements", {1, 4}, {0, 4});
  return out;
}

Row binary_row(const char* name, BinaryVar op, double (*f)(double, double), double low, double gap = 0,
               bool exact = false) {
  return {
      name,
      exact ? Bf16::kExact : Bf16::kInputs,
      {"one operation, rounded at 2^-9 = 0.002 in bf16; broadcast gradients add such terms, of size 1", 1},
      [=](Rng& rng) { return samples_of(rng, op, f, low, gap); },
      {{"shapes",
        [op] {
          op(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({2, 4})));
        },
        "\\[" + std::string(name) + "\\] shapes \\[2, 3\\] and \\[2, 4\\] do not broadcast"}}};
}

const Register kAdd(binary_row(
    "add", &add, [](double a, double b) { return a + b; }, -2));
const Register kSub(binary_row(
    "sub", &sub, [](double a, double b) { return a - b; }, -2));
const Register kMul(binary_row(
    "mul", &mul, [](double a, double b) { return a * b; }, -2));
const Register kDiv(binary_row(
    "div", &div, [](double a, double b) { return a / b; }, 0.5));
const Register kMaximum(binary_row(
    "maximum", &maximum, [](double a, double b) { return a >= b ? a : b; }, -2, 1, true));
const Register kMinimum(binary_row(
    "minimum", &minimum, [](double a, double b) { return a <= b ? a : b; }, -2, 1, true));

const Register kAddRelu(Row{
    "add_relu",
    Bf16::kInputs,
    {"one sum; bf16 rounds at 2^-9"},
    [](Rng& rng) {
      std::vector<Sample> out;
      for (auto [label, shape] :
           {std::pair{"plain", Shape{3, 4, 5}}, {"batch 1", Shape{1, 7}}, {"empty", Shape{0, 3}}}) {
        Tensor x = uniform(rng, shape), y = uniform_away(rng, shape, -1, 1, {});
        for (int64_t i = 0; i < x.numel(); ++i) {  // away from the kink, also after rounding to bf16
          double s = x.data<double>()[i] + y.data<double>()[i];
          if (std::abs(s) < 0.05) y.data<double>()[i] += 0.25;
        }
        out.push_back({label,
                       {x, y},
                       [](const Vars& v) { return add_relu(v[0], v[1]); },
                       [](const Tensors& in) {
                         return build(in[0].shape(),
                                      [&](auto& i) { return std::max(0.0, at(in[0], i) + at(in[1], i)); });
                       }});
      }
      return out;
    },
    {{"shapes",
      [] {
        add_relu(Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({3})));
      },
      "\\[add_relu\\] shapes differ, got \\[2, 3\\] and \\[3\\]"}}});

}  // namespace
}  // namespace saccade::optable
