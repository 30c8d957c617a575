// Op table rows: sums, means and softmax.
#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

using Index = std::vector<int64_t>;

Tensor reduce_reference(const Tensor& x, const std::vector<int>& axes, bool keep, bool mean) {
  Shape kept = x.shape(), out;
  for (int a : axes) kept[a] = 1;
  for (int a = 0; a < x.rank(); ++a) {
    bool summed = std::any_of(axes.begin(), axes.end(), [&](int b) { return x.shape().axis(b) == a; });
    if (!summed || keep) out.push_back(kept[a]);
  }
  Tensor y = Tensor::zeros(kept, DType::kF64);
  double scale = mean ? static_cast<double>(kept.numel()) / static_cast<double>(x.numel()) : 1;
  for_each_index(x.shape(), [&](const Index& i) {
    int64_t offset = 0;
    for (int a = 0; a < x.rank(); ++a)
      if (kept[a] != 1) offset += i[static_cast<size_t>(a)] * y.strides()[a];
    y.data<double>()[offset] += at(x, i) * scale;
  });
  return y.reshape(out);
}

Row reduce_row(const char* name, bool is_mean) {
  auto samples = [is_mean](Rng& rng) {
    std::vector<Sample> out;
    auto over = [&](const char* label, Shape shape, std::vector<int> axes, bool keep) {
      out.push_back({label,
                     {uniform(rng, shape)},
                     [=](const Vars& v) { return is_mean ? mean(v[0], axes, keep) : sum(v[0], axes, keep); },
                     [=](const Tensors& in) { return reduce_reference(in[0], axes, keep, is_mean); }});
    };
    auto total = [&](const char* label, Shape shape) {
      std::vector<int> axes;
      for (int a = 0; a < shape.rank(); ++a) axes.push_back(a);
      out.push_back({label,
                     {uniform(rng, shape)},
                     [=](const Vars& v) { return is_mean ? mean(v[0]) : sum(v[0]); },
                     [=](const Tensors& in) { return reduce_reference(in[0], axes, false, is_mean); }});
    };
    total("all", {3, 4, 5});
    total("scalar", {});
    total("several runs", {3, 5000});
    over("rows", {4, 37}, {1}, false);
    over("columns", {9, 70}, {0}, false);
    over("several row blocks", {300, 3}, {0}, true);
    over("several runs of rows", {1300, 3}, {0}, false);
    over("several runs of wide rows", {1100, 24}, {0}, false);
    over("wide row blocks", {140, 264}, {0}, false);
    over("middle", {3, 5, 7}, {1}, true);
    over("long middle", {3, 70, 8}, {1}, true);
    over("long rows", {9, 72}, {1}, false);
    over("longer rows", {2, 1500}, {1}, false);
    over("outer and inner", {3, 5, 4}, {0, -1}, false);
    over("alternating", {2, 3, 4, 5}, {1, 3}, false);
    over("no axes", {2, 3}, {}, false);
    over("batch 1", {1, 6}, {0}, false);
    if (!is_mean) {
      over("of nothing", {0, 3}, {0}, false);
      total("of no elements", {0, 3});
    }
    over("to nothing", {0, 3}, {1}, false);
    return out;
  };
  std::vector<ErrorCase> errors{
      {"axis", [] { sum(Var(Tensor::zeros({2})), std::vector<int>{1}); }, "axis 1 out of range"}};
  if (is_mean)
    errors.push_back({"empty",
                      [] {
                        mean(Var(Tensor::zeros({0, 2})));
                      },
                      "\\[mean\\] got shape \\[0, 2\\], which has no elements"});
  return {
      name,
      Bf16::kInputs,
      {"f32 sums of at most some thousand terms, which cancel in part; bf16 rounds the sum and the gradient once",
       is_mean ? 0.1 : 10},
      samples,
      errors};
}

const Register kSum(reduce_row("sum", false));
const Register kMean(reduce_row("mean", true));

Row softmax_row(const char* name, bool log) {
  auto samples = [log](Rng& rng) {
    std::vector<Sample> out;
    for (auto [label, shape] : {std::pair{"plain", Shape{3, 4, 7}},
                                {"vector width", Shape{2, 64}},
                                {"several numbers a lane", Shape{2, 70}},
                                {"long", Shape{2, 131}},
                                {"several vectors a lane", Shape{1, 260}},
                                {"long, whole vectors", Shape{1, 1028}},
                                {"many short rows", Shape{131, 4}},
                                {"one class", Shape{4, 1}},
                                {"one row", Shape{5}},
                                {"batch 1", Shape{1, 16}},
                                {"no rows", Shape{0, 3}},
                                {"no classes", Shape{3, 0}}}) {
      out.push_back({label,
                     {uniform(rng, shape, -3, 3)},
                     [log](const Vars& v) { return log ? log_softmax(v[0]) : softmax(v[0]); },
                     [log](const Tensors& in) {
                       const Tensor& x = in[0];
                       return build(x.shape(), [&](Index i) {
                         double value = at(x, i), total = 0;
                         for (i.back() = 0; i.back() < x.dim(-1); ++i.back()) total += std::exp(at(x, i));
                         return log ? value - std::log(total) : std::exp(value) / total;
                       });
                     }});
    }
    Sample large = out[0];  // shifted far beyond exp's range in f32
    large.label = "large values";
    large.inputs[0] = map(large.inputs[0], [](double x) { return x + 500; });
    large.reference = [log](const Tensors& in) {
      return build(in[0].shape(), [&](Index i) {
        double value = at(in[0], i) - 500, total = 0;
        for (i.back() = 0; i.back() < in[0].dim(-1); ++i.back()) total += std::exp(at(in[0], i) - 500);
        return log ? value - std::log(total) : std::exp(value) / total;
      });
    };
    out.push_back(large);
    return out;
  };
  return {name,
          Bf16::kExact,
          {"sums of at most 1,028 terms and exp of a few ulp, in f32 also for bf16 inputs"},
          samples,
          {{"scalar", [log] { (log ? log_softmax : softmax)(Var(Tensor::zeros({}))); },
            "\\[" + std::string(name) + "\\] input is a scalar"}}};
}

const Register kSoftmax(softmax_row("softmax", false));
const Register kLogSoftmax(softmax_row("log_softmax", true));

}  // namespace
}  // namespace saccade::optable
