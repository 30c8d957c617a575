// Tests of the op table itself: that it catches wrong ops, and that no op lacks a row.
#include "tests/autograd/op_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "autograd/engine.h"

namespace saccade::optable {
namespace {

enum class Fault {
  kNone,
  kZeroed,
  kFlipped,
  kHalfMissing,
  kUnwrittenOutput,
  kIgnoresStrides,
  kNotRepeatable,
  kWrongForward,
  kNeverBf16,
  kWrongOnCuda
};

// y = a * b, with a fault.
struct Product {
  static constexpr const char* kName = "product";
  static constexpr auto macs = no_macs;
  Fault fault;

  static Tensor multiply(const Tensor& a, const Tensor& b, DType dtype) {
    auto x = a.to_vector<double>(), y = b.to_vector<double>();
    for (size_t i = 0; i < x.size(); ++i) x[i] *= y[i];
    return Tensor::from(a.shape(), x).to(dtype).to(a.device());
  }
  Tensor forward(Context& ctx, const Tensors& in) const {
    ctx.save(in[0]);
    ctx.save(in[1]);
    static int calls = 0;
    Tensor y = multiply(in[0], in[1], fault == Fault::kNeverBf16 ? DType::kF32 : in[0].dtype());
    if (fault == Fault::kUnwrittenOutput) y = Tensor::empty(y.shape(), y.dtype());
    if (fault == Fault::kWrongForward) y.copy_from(multiply(y, Tensor::full(y.shape(), 1.001), y.dtype()));
    if (fault == Fault::kWrongOnCuda && y.device() == Device::kCuda)
      y.copy_from(multiply(y, Tensor::full(y.shape(), 1.001), y.dtype()));
    if (fault == Fault::kNotRepeatable) y.copy_from(multiply(y, Tensor::full(y.shape(), ++calls), y.dtype()));
    if (fault == Fault::kIgnoresStrides && !in[0].is_contiguous()) y = y.zeros_like();
    return y;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    Tensor da = multiply(dy, ctx.saved(1), dy.dtype()), db = multiply(dy, ctx.saved(0), dy.dtype());
    if (fault == Fault::kZeroed) da = da.zeros_like();
    if (fault == Fault::kFlipped) db = multiply(db, Tensor::full(db.shape(), -1), db.dtype());
    if (fault == Fault::kHalfMissing) db.slice(0, 0, db.dim(0) / 2).fill(0);
    return {ctx.needs(0) ? da : Tensor(), ctx.needs(1) ? db : Tensor()};
  }
};

Row product_row(Fault fault) {
  return Row{"mul", Bf16::kInputs, {"one product"}, [fault](Rng& rng) {
               Sample s{"plain",
                        {uniform(rng, {4, 3}), uniform(rng, {4, 3})},
                        [fault](const Vars& v) {
                          return run_op(Product{fault}, {v[0], v[1]});
                        },
                        [](const Tensors& in) {
                          return build(in[0].shape(), [&](auto& i) { return at(in[0], i) * at(in[1], i); });
                        }};
               return std::vector<Sample>{s};
             }};
}

TEST(OpTable, PassesACorrectOp) {
  for (const Check& check : checks())
    EXPECT_EQ(run_check(check.name, product_row(Fault::kNone), 1), "") << check.name;
}

TEST(OpTable, CatchesFaults) {
  auto caught = [](Fault fault, std::string_view check) {
    return !run_check(check, product_row(fault), 1).empty();
  };
  EXPECT_TRUE(caught(Fault::kZeroed, "gradcheck"));
  EXPECT_TRUE(caught(Fault::kFlipped, "gradcheck"));
  EXPECT_TRUE(caught(Fault::kHalfMissing, "gradcheck"));
  EXPECT_TRUE(caught(Fault::kUnwrittenOutput, "forward_f64"));
  EXPECT_TRUE(caught(Fault::kUnwrittenOutput, "f32"));
  EXPECT_TRUE(caught(Fault::kWrongForward, "forward_f64"));
  EXPECT_TRUE(caught(Fault::kIgnoresStrides, "strided"));
  EXPECT_TRUE(caught(Fault::kNotRepeatable, "repeatable"));
  EXPECT_TRUE(caught(Fault::kNeverBf16, "bf16"));
  if (cuda_problem().empty()) {
    EXPECT_TRUE(caught(Fault::kWrongOnCuda, "cuda"));
  }
}

TEST(OpTable, CatchesMissingAndWrongErrors) {
  Row row = product_row(Fault::kNone);
  row.errors = {{"silent", [] {}, "anything"}, {"other", [] { fail("[a] b"); }, "\\[c\\]"}};
  std::string text = run_check("errors", row, 1);
  EXPECT_NE(text.find("silent: nothing thrown"), std::string::npos) << text;
  EXPECT_NE(text.find("other: message"), std::string::npos) << text;
}

TEST(OpTable, EveryOpHasARow) {
  std::ifstream file(SACCADE_SOURCE_DIR "/autograd/ops.h");
  ASSERT_TRUE(file.good());
  std::set<std::string> with_row, missing;
  for (const Row& row : rows()) with_row.insert(row.name);
  std::regex declaration("^(?:inline )?Var ([a-z0-9_]+)\\(");
  int ops = 0;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, declaration)) continue;
    ++ops;
    if (!with_row.count(match[1])) missing.insert(match[1]);
  }
  EXPECT_GT(ops, 40);
  EXPECT_TRUE(missing.empty()) << "ops of autograd/ops.h without a row: " << testing::PrintToString(missing);
}

}  // namespace
}  // namespace saccade::optable
