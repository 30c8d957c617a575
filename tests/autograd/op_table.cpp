#include "tests/autograd/op_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <regex>

#include "autograd/engine.h"
#include "core/runtime/kernel.h"
#include "core/runtime/parallel.h"
#include "tests/compare_tensors.h"

namespace saccade::optable {
namespace {

std::vector<Row>& mutable_rows() {
  static std::vector<Row> rows;
  return rows;
}

// Turns on poisoning, guard bytes and many small parallel pieces for the duration of a check.
class DebugScope {
 public:
  DebugScope() : threads_(omp_get_max_threads()) {
    set_debug({.poison = true, .guard = true});
    parallel_debug().ignore_grain = true;
    omp_set_num_threads(2);
  }
  ~DebugScope() {
    omp_set_num_threads(threads_);
    parallel_debug().ignore_grain = false;
    set_debug({});
  }

 private:
  static void set_debug(AllocatorDebug debug) {
    allocator(Device::kCpu).set_debug(debug);
    if (cuda_problem().empty()) allocator(Device::kCuda).set_debug(debug);
  }
  int threads_;
};

std::vector<Sample> make_samples(const Row& row, uint64_t seed) {
  Rng rng(seed, hash_name(row.name));
  return row.samples(rng);
}

bool is_constant(const Sample& s, size_t i) {
  return std::find(s.constant.begin(), s.constant.end(), static_cast<int>(i)) != s.constant.end();
}
bool differentiable(const Sample& s, size_t i) { return s.inputs[i].defined() && !is_constant(s, i); }

struct Setting {
  std::vector<DType> dtypes;     // one per input
  DType compute = DType::kF32;   // for Cast::kCompute
  std::vector<bool> needs = {};  // which inputs take a gradient; empty: all differentiable ones
  Tensor cotangent = {};         // defaults to random values
  Device device = Device::kCpu;  // where the op runs; its results are copied to the CPU
};

struct Outcome {
  Tensor output;
  Tensors grads;
};

Setting all_of(const Sample& s, DType dtype) { return {std::vector<DType>(s.inputs.size(), dtype)}; }

Tensor run_forward(const Sample& s, const Tensors& inputs, uint64_t seed) {
  NoGrad no_grad;
  execution().rng_key = seed;
  execution().rng_calls = 0;
  Vars vars;
  for (const Tensor& t : inputs) vars.push_back(t.defined() ? Var(t) : Var());
  return s.fn(vars).value();
}

Tensor random_cotangent(const Shape& shape, uint64_t seed) {
  Rng rng(seed, hash_name("cotangent"));
  return uniform(rng, shape, -1, 1);
}

Outcome run(const Sample& s, const Tensors& inputs, const Setting& setting, uint64_t seed) {
  ExecutionScope scope;
  execution().grad_enabled = true;
  execution().compute = setting.compute;
  execution().rng_key = seed;
  execution().rng_calls = 0;
  Vars vars;
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool needs = differentiable(s, i) && (setting.needs.empty() || setting.needs[i]);
    any = any || needs;
    vars.push_back(inputs[i].defined() ? Var(inputs[i].to(setting.dtypes[i]).to(setting.device), needs)
                                       : Var());
  }
  Var y = s.fn(vars);
  Outcome out{y.value().to(Device::kCpu), Tensors(inputs.size())};
  if (!any) return out;
  Tensor seed_grad = setting.cotangent.defined() ? setting.cotangent : random_cotangent(y.shape(), seed);
  backward(y, seed_grad.to(y.dtype()).to(setting.device));
  for (size_t i = 0; i < vars.size(); ++i)
    if (vars[i].defined() && vars[i].requires_grad()) out.grads[i] = vars[i].grad().to(Device::kCpu);
  return out;
}

// The results whose errors are measured separately.
enum class Band { kF64, kGradcheck, kF32, kF32Gradient, kBf16, kBf16Gradient };
constexpr std::array kBandNames{"f64", "gradcheck", "f32", "f32 gradient", "bf16", "bf16 gradient"};
constexpr Band gradient_of(Band band) { return static_cast<Band>(static_cast<int>(band) + 1); }

struct MeasuredErrors {
  std::string_view op;
  double largest[kBandNames.size()];
};
constexpr MeasuredErrors kMeasured[] = {
#include "tests/autograd/largest_errors.inc"
};

// Seeds, machines and compilers differ by less than this. Exact results must stay exact, except in f64, where
// the compiler chooses which products and sums are one instruction.
constexpr double kMargin = 5;
constexpr double kF64Ulp = 0x1p-52;

// Returns NaN for a row that was not measured.
double allowed_error(const Row& row, Band band) {
  const auto* m = std::ranges::find(kMeasured, row.name, &MeasuredErrors::op);
  if (m == std::end(kMeasured)) return std::nan("");
  auto largest = [&](Band b) { return kMargin * m->largest[static_cast<size_t>(b)]; };
  switch (band) {
    case Band::kF64:
      return largest(band) + kF64Ulp;
    case Band::kBf16:
      return row.bf16 == Bf16::kExact ? 0 : largest(band) + largest(Band::kF32);
    case Band::kBf16Gradient:
      return largest(band) + largest(Band::kF32Gradient);  // both runs sum in f32
    default:
      return largest(band);
  }
}

// Appends the largest error of each row and band in this process to a file, for scripts/checks/tolerances.sh.
class LargestErrors {
 public:
  void add(const Row& row, Band band, double error) {
    double& largest = errors_[{row.name, band}];
    largest = std::max(largest, error);
  }
  ~LargestErrors() {
    const char* path = std::getenv("SACCADE_LARGEST_ERRORS");
    std::FILE* file = path ? std::fopen(path, "a") : nullptr;
    if (!file) return;
    for (const Row& row : rows())
      for (const auto& [key, error] : errors_)
        if (key.first == row.name)
          fmt::print(file, "{}\t{}\t{:.3g}\n", row.name, kBandNames[static_cast<size_t>(key.second)], error);
    std::fclose(file);
  }

 private:
  std::map<std::pair<std::string, Band>, double> errors_;
};

LargestErrors& largest_errors() {
  rows();  // outlives what is made after it
  static LargestErrors errors;
  return errors;
}

// The largest |got - expected| / (|expected| + rms(expected) + magnitude), and where.
struct Worst {
  double error = 0;
  size_t where = 0;
};
Worst worst_error(const std::vector<double>& got, const std::vector<double>& expected, double magnitude) {
  double rms = 0;
  for (double v : expected) rms += v * v;
  rms = expected.empty() ? 0 : std::sqrt(rms / static_cast<double>(expected.size()));
  Worst worst;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = std::abs(got[i] - expected[i]);
    double scaled = got[i] == expected[i] ? 0 : error / (std::abs(expected[i]) + rms + magnitude);
    if (!(scaled <= worst.error)) worst = {scaled, i};
    if (std::isnan(scaled)) break;
  }
  return worst;
}

// The error that a comparison allows: `times` the row's error, plus `more`.
struct Sides {
  double times = 1, more = 0;
};
// Both devices are off by as much as the row allows, and CUDA's functions of f32 by up to 4 ulp (the CUDA
// programming guide's table).
constexpr Sides kBothDevices{2, 4 * 0x1p-23};

// Returns "" if the error of `got` is allowed; otherwise describes the worst element.
std::string compare(const Row& row, Band band, const Tensor& got, const Tensor& expected, Sides sides = {}) {
  if (!got.defined()) return "nothing returned";
  if (got.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", got.shape().to_string(), expected.shape().to_string());
  auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  const auto [worst, where] = worst_error(a, b, row.rounding.magnitude);
  const double tolerance = sides.times * allowed_error(row, band) + sides.more;
  if (worst > sides.more) largest_errors().add(row, band, worst / sides.times);
  if (worst <= tolerance) return "";
  if (std::isnan(tolerance)) return "not measured: run scripts/checks/tolerances.sh";
  return fmt::format("element {} of {} is {:.9g}, expected {:.9g}: relative error {:.3g}, allowed {:.3g}",
                     where, got.shape().to_string(), a[where], b[where], worst, tolerance);
}

class Failures {
 public:
  void add(const Sample& s, const std::string& what) {
    if (!what.empty()) text_ += fmt::format("  sample \"{}\": {}\n", s.label, what);
  }
  void add(const Sample& s, const std::string& where, const std::string& what) {
    if (!what.empty()) add(s, where + ": " + what);
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

std::string gradient_name(size_t i) { return fmt::format("gradient of input {}", i); }

Tensors cast_all(const Tensors& inputs, DType dtype) {
  Tensors out;
  for (const Tensor& t : inputs) out.push_back(t.defined() ? t.to(dtype) : t);
  return out;
}
Tensors rounded(const Tensors& inputs, DType dtype) { return cast_all(cast_all(inputs, dtype), DType::kF64); }

// ---- the checks -------------------------------------------------------------------------------------------

double dot(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

std::string check_gradcheck(const Row& row, uint64_t seed) {
  constexpr double kStep = 1e-5;
  constexpr int64_t kAllElements = 400;  // beyond that: some elements and some random directions
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    Outcome analytic = run(s, s.inputs, all_of(s, DType::kF64), seed);
    Tensor cotangent = random_cotangent(analytic.output.shape(), seed);
    Rng rng(seed, hash_name("directions"));
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      if (!differentiable(s, i)) continue;
      const Tensor& x = s.inputs[i];
      int64_t n = x.numel();
      // Returns the derivative along `direction` by a central difference.
      auto slope = [&](const Tensor& direction) {
        double value[2];
        for (int side = 0; side < 2; ++side) {
          Tensors inputs = s.inputs;
          inputs[i] = x.clone();
          double* p = inputs[i].data<double>();
          const double* d = direction.data<double>();
          for (int64_t j = 0; j < n; ++j) p[j] += (side == 0 ? kStep : -kStep) * d[j];
          value[side] = dot(s.frozen ? s.frozen(s.inputs, inputs) : run_forward(s, inputs, seed), cotangent);
        }
        return (value[0] - value[1]) / (2 * kStep);
      };
      std::vector<double> numeric, exact;
      if (analytic.grads[i].shape() != x.shape()) {
        failures.add(s, gradient_name(i), "wrong shape");
        continue;
      }
      auto grad = analytic.grads[i].to_vector<double>();
      bool all = n <= kAllElements;
      for (int64_t k = 0; k < (all ? n : 24); ++k) {
        int64_t j = all ? k : rng.below(n);
        Tensor direction = Tensor::zeros(x.shape(), DType::kF64);
        direction.data<double>()[j] = 1;
        numeric.push_back(slope(direction));
        exact.push_back(grad[static_cast<size_t>(j)]);
      }
      for (int k = 0; !all && k < 6; ++k) {
        Tensor direction = uniform(rng, x.shape());
        double scale = 1 / std::sqrt(static_cast<double>(n));  // keeps both kinds of projection comparable
        numeric.push_back(slope(direction) * scale);
        exact.push_back(std::inner_product(grad.begin(), grad.end(), direction.data<double>(), 0.0) * scale);
      }
      Shape shape{static_cast<int64_t>(numeric.size())};
      failures.add(s, gradient_name(i),
                   compare(row, Band::kGradcheck, Tensor::from(shape, exact), Tensor::from(shape, numeric)));
    }
  }
  return failures.text();
}

std::string check_forward_f64(const Row& row, uint64_t seed) {
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    Tensor y = run_forward(s, s.inputs, seed);
    if (y.dtype() != DType::kF64) failures.add(s, fmt::format("f64 inputs give {}", name_of(y.dtype())));
    failures.add(s, compare(row, Band::kF64, y, s.reference(s.inputs)));
  }
  return failures.text();
}

std::string check_f32(const Row& row, uint64_t seed) {
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    Tensors inputs = rounded(s.inputs, DType::kF32);
    Tensor cotangent = random_cotangent(run_forward(s, inputs, seed).shape(), seed).to(DType::kF32);
    Setting f32 = all_of(s, DType::kF32), f64 = all_of(s, DType::kF64);
    f32.cotangent = f64.cotangent = cotangent;
    Outcome got = run(s, inputs, f32, seed), want = run(s, inputs, f64, seed);
    if (got.output.dtype() != DType::kF32)
      failures.add(s, fmt::format("f32 inputs give {}", name_of(got.output.dtype())));
    failures.add(s, "forward", compare(row, Band::kF32, got.output, s.reference(inputs)));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!differentiable(s, i)) continue;
      failures.add(s, gradient_name(i), compare(row, Band::kF32Gradient, got.grads[i], want.grads[i]));
    }
  }
  return failures.text();
}

std::string check_bf16(const Row& row, uint64_t seed) {
  Failures failures;
  if (row.bf16 == Bf16::kNone) return "";
  bool any_difference = false, any_element = false;
  for (const Sample& s : make_samples(row, seed)) {
    // Rounds every input to bf16 except those that stay f32 in the bf16 run.
    Tensors inputs = rounded(s.inputs, DType::kBF16);
    Setting f32 = all_of(s, DType::kF32);
    Setting low = all_of(s, row.bf16 == Bf16::kCompute ? DType::kF32 : DType::kBF16);
    if (row.bf16 == Bf16::kCompute) low.compute = DType::kBF16;
    for (int i : s.keep_f32) {
      auto k = static_cast<size_t>(i);
      low.dtypes[k] = DType::kF32;
      if (s.inputs[k].defined()) inputs[k] = s.inputs[k].to(DType::kF32);
    }
    Tensor cotangent = random_cotangent(run_forward(s, inputs, seed).shape(), seed).to(DType::kBF16);
    f32.cotangent = low.cotangent = cotangent;
    Outcome want = run(s, inputs, f32, seed), got = run(s, inputs, low, seed);
    failures.add(s, "forward", compare(row, Band::kBf16, got.output, want.output));
    any_element = any_element || want.output.numel() > 1;
    any_difference = any_difference || got.output.to_vector<double>() != want.output.to_vector<double>();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!differentiable(s, i)) continue;
      failures.add(s, gradient_name(i), compare(row, Band::kBf16Gradient, got.grads[i], want.grads[i]));
    }
  }
  std::string text = failures.text();
  if (row.bf16 != Bf16::kExact && any_element && !any_difference)
    text += "  bf16 gives exactly the f32 results: was it computed in bf16 at all?\n";
  return text;
}

// Compares the bits of output and gradients with those of runs whose circumstances `vary(k)` changes.
template <class Vary>
void compare_bits(const Row&, const Sample& s, const Tensors& inputs, DType dtype, uint64_t seed, int times,
                  Vary vary, Failures& failures) {
  Outcome first = run(s, inputs, all_of(s, dtype), seed);
  for (int k = 0; k < times; ++k) {
    std::string what = vary(k);
    Outcome again = run(s, inputs, all_of(s, dtype), seed);
    if (!same_bits(first.output, again.output)) failures.add(s, what, "output has other bits");
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!same_bits(first.grads[i], again.grads[i]))
        failures.add(s, what, gradient_name(i) + " has other bits");
  }
}

std::string check_repeatable(const Row& row, uint64_t seed) {
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    Tensors inputs = cast_all(s.inputs, DType::kF32), before;
    for (const Tensor& t : inputs) before.push_back(t.defined() ? t.clone() : t);
    compare_bits(
        row, s, inputs, DType::kF32, seed, 2, [](int k) { return fmt::format("run {}", k + 2); }, failures);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!same_bits(before[i], inputs[i])) failures.add(s, fmt::format("input {} was changed", i));
  }
  return failures.text();
}

std::string check_threads(const Row& row, uint64_t seed) {
  if (!row.thread_dependent.empty()) return "";
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    omp_set_num_threads(1);
    auto vary = [](int k) {
      omp_set_num_threads(k + 1);
      return fmt::format("{} threads", k + 1);
    };
    compare_bits(row, s, cast_all(s.inputs, DType::kF32), DType::kF32, seed, 3, vary, failures);
  }
  return failures.text();
}

// Copies with the same values but other strides: axes reversed in memory, or a window of a larger tensor.
Tensor transposed_copy(const Tensor& t) {
  std::vector<int> axes(static_cast<size_t>(t.rank()));
  for (int i = 0; i < t.rank(); ++i) axes[static_cast<size_t>(i)] = t.rank() - 1 - i;
  return t.permute(axes).clone().permute(axes);
}
Tensor window_copy(const Tensor& t) {
  Shape shape = t.shape();
  for (int i = 0; i < shape.rank(); ++i) shape[i] += 2;
  Tensor window = Tensor::full(shape, std::nan(""), t.dtype());
  for (int i = 0; i < shape.rank(); ++i) window = window.slice(i, 1, 1 + t.dim(i));
  window.copy_from(t);
  return window;
}

std::string check_strided(const Row& row, uint64_t seed) {
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    Tensors plain = cast_all(s.inputs, DType::kF32);
    Setting setting = all_of(s, DType::kF32);
    setting.cotangent = random_cotangent(run_forward(s, plain, seed).shape(), seed).to(DType::kF32);
    Outcome want = run(s, plain, setting, seed);
    for (auto [name, copy] : {std::pair{"transposed", &transposed_copy}, std::pair{"window", &window_copy}}) {
      Tensors inputs;
      for (const Tensor& t : plain) inputs.push_back(t.defined() ? copy(t) : t);
      Setting other = setting;
      other.cotangent = copy(setting.cotangent);
      Outcome got = run(s, inputs, other, seed);
      if (!same_bits(got.output, want.output))
        failures.add(s, name, "output differs from that of contiguous inputs");
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!same_bits(got.grads[i], want.grads[i]))
          failures.add(s, name, gradient_name(i) + " differs from that of contiguous inputs");
    }
    // The gradient of a sum is one value seen through stride 0.
    Setting ones = setting, expanded = setting;
    ones.cotangent = Tensor::full(want.output.shape(), 0.75);
    expanded.cotangent = Tensor::scalar(0.75).expand(want.output.shape());
    Outcome a = run(s, plain, ones, seed), b = run(s, plain, expanded, seed);
    for (size_t i = 0; i < plain.size(); ++i)
      if (!same_bits(a.grads[i], b.grads[i]))
        failures.add(s, "expanded cotangent", gradient_name(i) + " differs");
  }
  return failures.text();
}

std::string check_needs_grad(const Row& row, uint64_t seed) {
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    Outcome want = run(s, s.inputs, all_of(s, DType::kF64), seed);
    std::vector<size_t> able;
    for (size_t i = 0; i < s.inputs.size(); ++i)
      if (differentiable(s, i)) able.push_back(i);
    size_t subsets = size_t{1} << std::min<size_t>(able.size(), 6);
    for (size_t subset = 0; subset + 1 < subsets; ++subset) {
      Setting setting = all_of(s, DType::kF64);
      setting.needs.assign(s.inputs.size(), false);
      for (size_t k = 0; k < able.size(); ++k) setting.needs[able[k]] = ((subset >> k) & 1u) != 0;
      Outcome got = run(s, s.inputs, setting, seed);
      std::string where = fmt::format("needs-grad subset {:b}", subset);
      if (!same_bits(got.output, want.output)) failures.add(s, where, "output differs");
      for (size_t i : able)
        if (setting.needs[i] && !same_bits(got.grads[i], want.grads[i]))
          failures.add(s, where, gradient_name(i) + " differs from that with all gradients");
    }
  }
  return failures.text();
}

std::string check_errors(const Row& row, uint64_t) {
  std::string text;
  for (const ErrorCase& c : row.errors) {
    try {
      c.call();
      text += fmt::format("  {}: nothing thrown, expected /{}/\n", c.label, c.message);
    } catch (const Error& e) {
      if (!std::regex_search(e.what(), std::regex(c.message)))
        text += fmt::format("  {}: message \"{}\" does not match /{}/\n", c.label, e.what(), c.message);
    }
  }
  return text;
}

// Compares the GPU with the CPU, in f32 and bf16 within the row's bands, and with itself to the bit.
std::string check_cuda(const Row& row, uint64_t seed) {
  if (!cuda_problem().empty()) return "";  // the generated test reports it
  Failures failures;
  for (const Sample& s : make_samples(row, seed)) {
    auto compare_devices = [&](const char* what, const Tensors& inputs, const Setting& setting, Band band) {
      Setting cpu = setting, gpu = setting;
      Tensor y = run_forward(s, inputs, seed);
      cpu.cotangent = gpu.cotangent = random_cotangent(y.shape(), seed).to(setting.compute);
      gpu.device = Device::kCuda;
      Outcome want = run(s, inputs, cpu, seed), got = run(s, inputs, gpu, seed),
              again = run(s, inputs, gpu, seed);
      if (got.output.dtype() != want.output.dtype())
        failures.add(s, what, fmt::format("output is {}", name_of(got.output.dtype())));
      failures.add(s, what, compare(row, band, got.output, want.output, kBothDevices));
      if (!same_bits(got.output, again.output)) failures.add(s, what, "a second run has other bits");
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!differentiable(s, i)) continue;
        std::string where = fmt::format("{}, {}", what, gradient_name(i));
        failures.add(s, where, compare(row, gradient_of(band), got.grads[i], want.grads[i], kBothDevices));
        if (!same_bits(got.grads[i], again.grads[i])) failures.add(s, where, "a second run has other bits");
      }
    };
    compare_devices("f32", rounded(s.inputs, DType::kF32), all_of(s, DType::kF32), Band::kF32);
    if (row.bf16 == Bf16::kNone) continue;
    Tensors inputs = rounded(s.inputs, DType::kBF16);
    Setting low = all_of(s, row.bf16 == Bf16::kCompute ? DType::kF32 : DType::kBF16);
    if (row.bf16 == Bf16::kCompute) low.compute = DType::kBF16;
    for (int i : s.keep_f32) {
      auto k = static_cast<size_t>(i);
      low.dtypes[k] = DType::kF32;
      if (s.inputs[k].defined()) inputs[k] = s.inputs[k].to(DType::kF32);
    }
    compare_devices("bf16", inputs, low, Band::kBf16);
  }
  return failures.text();
}

// Checks the generic kernels, the reference of the tuned ones, in the same way.
std::string check_cuda_generic(const Row& row, uint64_t seed) {
  struct Scope {
    Scope() { execution().generic_kernels = true; }
    ~Scope() { execution().generic_kernels = false; }
  } scope;
  return check_cuda(row, seed);
}

constexpr Check kChecks[] = {
    {"gradcheck", &check_gradcheck}, {"forward_f64", &check_forward_f64},   {"f32", &check_f32},
    {"bf16", &check_bf16},           {"repeatable", &check_repeatable},     {"threads", &check_threads},
    {"strided", &check_strided},     {"needs_grad", &check_needs_grad},     {"errors", &check_errors},
    {"cuda", &check_cuda},           {"cuda_generic", &check_cuda_generic},
};

uint64_t test_seed() {
  const char* text = std::getenv("SACCADE_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

class OpTest : public testing::Test {
 public:
  OpTest(std::string row, std::string check) : row_(std::move(row)), check_(std::move(check)) {}
  void TestBody() override {
    if (check_.starts_with("cuda") && !cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
    for (const Row& row : rows()) {
      if (row.name != row_) continue;
      std::string failures = run_check(check_, row, test_seed());
      EXPECT_TRUE(failures.empty()) << failures << "  what rounds: " << row.rounding.why
                                    << "\n  again: SACCADE_TEST_SEED=" << test_seed()
                                    << " test_autograd --gtest_filter=op_" << row_ << "." << check_;
    }
  }

 private:
  std::string row_, check_;
};

}  // namespace

const std::vector<Row>& rows() { return mutable_rows(); }
std::span<const Check> checks() { return kChecks; }

std::string run_check(std::string_view check, const Row& row, uint64_t seed) {
  DebugScope debug;
  for (const Check& c : kChecks) {
    if (c.name != check) continue;
    try {
      return c.run(row, seed);
    } catch (const std::exception& e) {
      return fmt::format("  threw: {}\n", e.what());
    }
  }
  return fmt::format("no check of the name {}\n", check);
}

Register::Register(Row row) {
  for (const Check& c : kChecks) {
    std::string name = row.name, check = c.name;
    if (check == "errors" && row.errors.empty()) continue;
    if (check == "bf16" && row.bf16 == Bf16::kNone) continue;
    testing::RegisterTest(("op_" + name).c_str(), c.name, nullptr, nullptr, __FILE__, __LINE__,
                          [name, check]() -> OpTest* { return new OpTest(name, check); });
  }
  mutable_rows().push_back(std::move(row));
}

// ---- helpers ----------------------------------------------------------------------------------------------

Tensor uniform(Rng& rng, const Shape& shape, double low, double high) {
  return uniform_away(rng, shape, low, high, {});
}

Tensor uniform_away(Rng& rng, const Shape& shape, double low, double high, std::vector<double> points,
                    double margin) {
  Tensor t = Tensor::empty(shape, DType::kF64);
  double* p = t.data<double>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    auto near = [&](double q) { return std::abs(p[i] - q) < margin; };
    do p[i] = rng.uniform(low, high);
    while (std::any_of(points.begin(), points.end(), near));
  }
  return t;
}

Tensor distinct(Rng& rng, const Shape& shape) {
  Tensor t = Tensor::empty(shape, DType::kF64);
  double* p = t.data<double>();
  int64_t n = t.numel();
  for (int64_t i = 0; i < n; ++i) {
    int64_t j = rng.below(i + 1);
    p[i] = p[j];
    p[j] = (2.0 * static_cast<double>(i) + 1) / static_cast<double>(n) - 1;
  }
  return t;
}

Tensor random_indices(Rng& rng, const Shape& shape, int64_t n) {
  Tensor t = Tensor::empty(shape, DType::kI64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = rng.below(n);
  return t;
}

Tensor map(const Tensor& x, const std::function<double(double)>& f) {
  Tensor y = x.to(DType::kF64).clone();
  double* p = y.data<double>();
  for (int64_t i = 0; i < y.numel(); ++i) p[i] = f(p[i]);
  return y;
}

void for_each_index(const Shape& shape, const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t k = 0, n = shape.numel(); k < n; ++k) {
    f(index);
    for (int a = shape.rank() - 1; a >= 0; --a) {
      if (++index[static_cast<size_t>(a)] < shape[a]) break;
      index[static_cast<size_t>(a)] = 0;
    }
  }
}

double at(const Tensor& t, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (int a = 1; a <= t.rank(); ++a)
    if (t.dim(-a) != 1) offset += index[index.size() - static_cast<size_t>(a)] * t.strides()[-a];
  return t.data<double>()[offset];
}

Tensor build(const Shape& shape, const std::function<double(const std::vector<int64_t>&)>& f) {
  Tensor t = Tensor::empty(shape, DType::kF64);
  double* p = t.data<double>();
  for_each_index(shape, [&](const std::vector<int64_t>& index) { *p++ = f(index); });
  return t;
}

}  // namespace saccade::optable
