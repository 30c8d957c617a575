// The op table: one row per differentiable op; every row becomes a test suite "op_NAME" with one test per
// check.
//
// How to add a row (see rows_unary.cpp):
//   1. In a rows_*.cpp file write `static const optable::Register kGelu(optable::Row{...});` with the op's
//   name in ops.h.
//   2. samples(rng): small f64 inputs (some hundred elements), away from kinks; add batch 1 and size 0 where
//   legal.
//   3. Sample::fn calls the op; Sample::reference computes it with plain loops in f64 from the same inputs.
//   4. Say what rounds; scripts/checks/tolerances.sh measures how much and writes the row's line of
//      largest_errors.inc.
//   5. errors: calls that must throw, with a regex for the message.
//   6. Run `test_autograd --gtest_filter=op_gelu.*`; a failure prints the line that repeats it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "core/kernels/activation/activations.h"
#include "core/tensor/philox.h"

namespace saccade::optable {

struct Sample {
  std::string label;
  Tensors inputs;  // f64, contiguous; an undefined one is passed as an undefined Var
  std::function<Var(const Vars&)> fn;
  std::function<Tensor(const Tensors&)> reference;  // f64 in, f64 out, plain loops
  std::vector<int> constant = {};                   // inputs without a gradient
  std::vector<int> keep_f32 = {};                   // inputs that stay f32 when the others become bf16
  // For an op whose gradient treats a part of it as constant: the function that finite differences are taken
  // of, in f64, with that part computed from the inputs `at` of the gradient. If empty, fn.
  std::function<Tensor(const Tensors& at, const Tensors& in)> frozen = {};
};

// How bf16 is tested. Inputs are always rounded to bf16 first, and the f32 run gets the same values.
enum class Bf16 {
  kNone,     // the op has no bf16 form
  kInputs,   // inputs given as bf16 (Cast::kSame, kWidest); the result must be near the f32 one but not equal
             // to it
  kCompute,  // inputs f32 under execution().compute = bf16 (Cast::kCompute); as above
  kExact,    // inputs given as bf16, every result equals the f32 one: views, maximum, Cast::kF32
};

// What rounds in an op, printed with a failure. The allowed error is measured: five times the largest one
// that scripts/checks/tolerances.sh found (largest_errors.inc), as |got - expected| / (|expected| +
// rms(expected) + magnitude).
struct Rounding {
  const char* why;
  double magnitude = 1e-3;  // size of the terms that cancel in results near zero
};

struct ErrorCase {
  std::string label;
  std::function<void()> call;
  std::string message;  // regex, searched in what()
};

struct Row {
  std::string name;
  Bf16 bf16;
  Rounding rounding;
  std::function<std::vector<Sample>(Rng&)> samples;
  std::vector<ErrorCase> errors = {};
  // Why the last bits may depend on the number of threads (never on the run); empty: they must not.
  std::string thread_dependent = {};
};

// Adds the row and its tests; for objects with static storage.
struct Register {
  explicit Register(Row row);
};
const std::vector<Row>& rows();

// The generated checks. Each returns the failures, one per line; empty means passed. Memory is poisoned with
// NaN and guarded meanwhile, and parallel loops ignore their grain so that small samples use all threads.
struct Check {
  const char* name;
  std::string (*run)(const Row& row, uint64_t seed);
};
std::span<const Check> checks();
std::string run_check(std::string_view check, const Row& row, uint64_t seed);

// ---- helpers for rows -------------------------------------------------------------------------------------
// Uniform values in [low, high), f64.
Tensor uniform(Rng& rng, const Shape& shape, double low = -1, double high = 1);
// As above, each value at least `margin` away from each of `points`.
Tensor uniform_away(Rng& rng, const Shape& shape, double low, double high, std::vector<double> points,
                    double margin = 1e-3);
// Random order of values that are at least 2 / numel apart: for maxima.
Tensor distinct(Rng& rng, const Shape& shape);
// i64 values in [0, n).
Tensor random_indices(Rng& rng, const Shape& shape, int64_t n);
// Every activation, for the rows of the ops that can end with one: its name and its value in f64.
struct NamedActivation {
  Activation act;
  const char* name;
};
std::vector<NamedActivation> activations();
double activation_of(Activation act, double z);
// y[i] = f(x[i])
Tensor map(const Tensor& x, const std::function<double(double)>& f);
// Calls f with every multi-index of the shape, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const std::vector<int64_t>&)>& f);
// Element of an f64 tensor of any strides at a multi-index; with a larger rank the index is broadcast
// NumPy-style.
double at(const Tensor& t, const std::vector<int64_t>& index);
// Builds an f64 tensor element by element.
Tensor build(const Shape& shape, const std::function<double(const std::vector<int64_t>&)>& f);

}  // namespace saccade::optable
