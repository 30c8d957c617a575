// Op table rows: elementwise ops of one tensor.
#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

using VarFunction = std::function<Var(const Var&)>;
using RealFunction = std::function<double(double)>;

Sample unary_sample(const char* label, Tensor x, VarFunction op, RealFunction f) {
  return {label,
          {std::move(x)},
          [op](const Vars& v) { return op(v[0]); },
          [f](const Tensors& in) { return map(in[0], f); }};
}

// Values are in [low, high) and away from `kinks`, with sizes around the vector width.
Row unary_row(const char* name, Bf16 bf16, Rounding rounding, double low, double high,
              std::vector<double> kinks, VarFunction op, RealFunction f, std::vector<ErrorCase> errors = {}) {
  auto samples = [=](Rng& rng) {
    std::vector<Sample> out;
    for (auto [label, shape] : {std::pair{"plain", Shape{3, 7, 5}},
                                {"one", Shape{1}},
                                {"scalar", Shape{}},
                                {"vector width", Shape{2, 32}},
                                {"batch 1", Shape{1, 4, 9}},
                                {"empty", Shape{0, 3}}})
      out.push_back(unary_sample(label, uniform_away(rng, shape, low, high, kinks, 0.02), op, f));
    return out;
  };
  return {name, bf16, rounding, samples, std::move(errors)};
}

constexpr Rounding kFewUlp{"a few ulp of f32 (polynomials); bf16 rounds at 2^-9, twice in backward"};
constexpr Rounding kOneUlp{"one rounding"};
// 1 + erf(x), 1 - y and 1 - y^2 cancel: small results are as good as numbers of size 0.25.
constexpr Rounding kCancels{"as other polynomials; small results come from cancellation", 0.25};

Row activation_row(Activation act, Bf16 bf16, Rounding rounding, std::vector<double> kinks, double range) {
  const char* name = "";
  kernels::with_activation(act, [&]<class F>() { name = F::kName; });
  return unary_row(
      name, bf16, rounding, -range, range, std::move(kinks), [act](const Var& x) { return unary(act, x); },
      [act](double x) { return activation_of(act, x); });
}

const Register kAddScalar(unary_row(
    "add_scalar", Bf16::kInputs, kOneUlp, -2, 2, {}, [](const Var& x) { return add_scalar(x, 0.3); },
    [](double x) { return x + 0.3; }));
const Register kMulScalar(unary_row(
    "mul_scalar", Bf16::kInputs, kOneUlp, -2, 2, {}, [](const Var& x) { return mul_scalar(x, -1.7); },
    [](double x) { return x * -1.7; }));
const Register kNeg(unary_row("neg", Bf16::kExact, kOneUlp, -2, 2, {}, &neg, [](double x) { return -x; }));
const Register kExp(unary_row("exp", Bf16::kInputs, kFewUlp, -4, 2, {}, &exp,
                              [](double x) { return std::exp(x); }));
const Register kLog(unary_row("log", Bf16::kInputs, kFewUlp, 0.1, 4, {}, &log,
                              [](double x) { return std::log(x); }));
const Register kSqrt(unary_row("sqrt", Bf16::kInputs, kFewUlp, 0.1, 4, {}, &sqrt,
                               [](double x) { return std::sqrt(x); }));
const Register kAbs(unary_row("abs", Bf16::kExact, kOneUlp, -2, 2, {0}, &abs,
                              [](double x) { return std::abs(x); }));
const Register kSquare(unary_row("square", Bf16::kInputs, kOneUlp, -2, 2, {}, &square,
                                 [](double x) { return x * x; }));
const Register kRelu(activation_row(Activation::kRelu, Bf16::kExact, kOneUlp, {0}, 2));
const Register kGelu(activation_row(Activation::kGelu, Bf16::kInputs, kCancels, {}, 4));
const Register kSilu(activation_row(Activation::kSilu, Bf16::kInputs, kCancels, {}, 6));
const Register kSigmoid(unary_row("sigmoid", Bf16::kInputs, kCancels, -6, 6, {}, &sigmoid,
                                  [](double x) { return 1 / (1 + std::exp(-x)); }));
const Register kTanh(unary_row("tanh", Bf16::kInputs, kCancels, -3, 3, {}, &tanh,
                               [](double x) { return std::tanh(x); }));
const Register kClamp(unary_row(
    "clamp", Bf16::kExact, kOneUlp, -2, 2, {-0.5, 1}, [](const Var& x) { return clamp(x, -0.5, 1); },
    [](double x) { return std::min(std::max(x, -0.5), 1.0); },
    {{"bounds", [] { clamp(Var(Tensor::zeros({2})), 1, 0); },
      "\\[clamp\\] bounds out of order, got low 1 and high 0"}}));

double inverse_sigmoid_reference(double x, double eps) {
  x = std::min(std::max(x, 0.0), 1.0);
  return std::log(std::max(x, eps) / std::max(1 - x, eps));
}
const Register kInverseSigmoid(Row{
    "inverse_sigmoid",
    Bf16::kExact,  // policy F32
    {"a few ulp of f32; bf16 gradients are rounded once"},
    [](Rng& rng) {
      auto op = [](double eps) { return [eps](const Var& x) { return inverse_sigmoid(x, eps); }; };
      auto f = [](double eps) { return [eps](double x) { return inverse_sigmoid_reference(x, eps); }; };
      std::vector<Sample> out;
      out.push_back(unary_sample("default eps", uniform(rng, {5, 4}, 0.02, 0.98), op(1e-5), f(1e-5)));
      out.push_back(unary_sample("all branches", uniform_away(rng, {40}, -0.5, 1.5, {0, 0.1, 0.9, 1}, 0.02),
                                 op(0.1), f(0.1)));
      out.push_back(unary_sample("empty", uniform(rng, {0, 4}), op(1e-5), f(1e-5)));
      return out;
    },
    {{"eps", [] { inverse_sigmoid(Var(Tensor::zeros({2})), 0); },
      "\\[inverse_sigmoid\\] eps out of range, got 0"}}});

const Register kCast(Row{
    "cast",
    Bf16::kExact,
    {"a copy; bf16 gradients are rounded once"},
    [](Rng& rng) {
      // Casts to the input's own dtype, and to another one and back: the values stay those of f64 or f32.
      auto id = [](double x) { return x; };
      return std::vector<Sample>{
          unary_sample(
              "same", uniform(rng, {3, 4}), [](const Var& x) { return cast(x, x.dtype()); }, id),
          unary_sample(
              "other", uniform(rng, {5, 5}),
              [](const Var& x) {
                return cast(cast(x, x.dtype() == DType::kBF16 ? DType::kF32 : x.dtype()), x.dtype());
              },
              id),
          unary_sample(
              "wider", uniform(rng, {3, 4}),
              [](const Var& x) { return cast(cast(x, DType::kF64), x.dtype()); }, id),
          unary_sample(
              "empty", uniform(rng, {0}), [](const Var& x) { return cast(x, x.dtype()); }, id)};
    },
    {{"integer", [] { cast(Var(Tensor::zeros({2})), DType::kI64); }, "\\[cast\\] from f32 to i64"}}});

}  // namespace

double activation_of(Activation act, double z) {
  switch (act) {
    case Activation::kNone:
      return z;
    case Activation::kRelu:
      return std::max(z, 0.0);
    case Activation::kGelu:
      return 0.5 * z * (1 + std::erf(z * std::sqrt(0.5)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
  }
  return NAN;
}

std::vector<NamedActivation> activations() {
  std::vector<NamedActivation> all;
  for (int i = 0; i < kernels::ActivationFunctions::kCount; ++i)
    kernels::ActivationFunctions::visit(i, [&]<class F>() {
      all.push_back({static_cast<Activation>(i), F::kName});
    });
  return all;
}

}  // namespace saccade::optable
