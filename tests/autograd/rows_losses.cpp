// Op table rows: the losses. Each is a scalar, so a cotangent is one number. The long samples cover more
// classes and pairs than one piece of the kernels holds.
#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

// i64 [shape] in [-1, K]: about a third of them "no object".
Tensor detection_labels(Rng& rng, const Shape& shape, int64_t K) {
  Tensor t = Tensor::empty(shape, DType::kI64);
  int64_t* p = t.data<int64_t>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t kind = rng.below(6);
    p[i] = kind == 0 ? -1 : kind == 1 ? K : rng.below(K);
  }
  return t;
}

Shape without_last(const Shape& s) {
  return Shape(std::span<const int64_t>(s.begin(), static_cast<size_t>(s.rank() - 1)));
}

// The sum of f(x, whether its column is the label, row) over all elements.
Tensor dense_loss(const Tensor& x, const Tensor& labels,
                  const std::function<double(double, bool, int64_t)>& f) {
  int64_t K = x.dim(-1);
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    sum += f(x.data<double>()[i], labels.data<int64_t>()[i / K] == i % K, i / K);
  return Tensor::scalar(sum, DType::kF64);
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

Sample focal_sample(Rng& rng, const char* label, const Shape& shape, double gamma) {
  Tensor x = uniform(rng, shape, -4, 4), labels = detection_labels(rng, without_last(shape), shape[-1]);
  return {label,
          {x},
          [labels, gamma](const Vars& v) { return sigmoid_focal_loss(v[0], labels, 0.25, gamma); },
          [labels, gamma](const Tensors& in) {
            return dense_loss(in[0], labels, [gamma](double v, bool hit, int64_t) {
              double p = hit ? logistic(v) : 1 - logistic(v);
              return (hit ? 0.25 : 0.75) * std::pow(1 - p, gamma) * -std::log(p);
            });
          }};
}

// A term of the losses whose targets come from the quality q of the label's box. The weight or the target,
// which takes no gradient, is computed from the score p0.
using QualityTerm = double (*)(double x, double p0, bool hit, double q, double gamma);

double cross_entropy_of(double x, double target) {
  return -target * std::log(logistic(x)) - (1 - target) * std::log(1 - logistic(x));
}
double varifocal_of(double x, double p0, bool hit, double q, double gamma) {
  return hit ? q * cross_entropy_of(x, q) : 0.75 * std::pow(p0, gamma) * cross_entropy_of(x, 0);
}
double matchability_of(double x, double p0, bool hit, double q, double gamma) {
  return hit ? cross_entropy_of(x, std::pow(q, gamma)) : std::pow(p0, gamma) * cross_entropy_of(x, 0);
}
double iou_aware_of(double x, double p0, bool hit, double q, double gamma) {
  if (hit) return cross_entropy_of(x, std::max(std::pow(p0, 0.25) * std::pow(q, 0.75), 0.01));
  return std::pow(logistic(x), gamma) * cross_entropy_of(x, 0);
}

Sample quality_sample(Rng& rng, const char* label, const Shape& shape, double gamma, QualityTerm term) {
  Tensor x = uniform(rng, shape, -4, 4), labels = detection_labels(rng, without_last(shape), shape[-1]);
  // Some of the boxes do not overlap their objects.
  Tensor quality = map(uniform(rng, without_last(shape), -0.3, 1), [](double q) { return std::max(q, 0.0); });
  auto frozen = [=](const Tensors& at, const Tensors& in) {
    const int64_t K = in[0].dim(-1);
    double sum = 0;
    for (int64_t i = 0; i < in[0].numel(); ++i)
      sum += term(in[0].data<double>()[i], logistic(at[0].data<double>()[i]),
                  labels.data<int64_t>()[i / K] == i % K, quality.data<double>()[i / K], gamma);
    return Tensor::scalar(sum, DType::kF64);
  };
  return {.label = label,
          .inputs = {x},
          .fn =
              [=](const Vars& v) {
                if (term == varifocal_of) return varifocal_loss(v[0], labels, quality, 0.75, gamma);
                if (term == matchability_of) return matchability_loss(v[0], labels, quality, gamma);
                return iou_aware_loss(v[0], labels, quality, 0.25, gamma);
              },
          .reference = [=](const Tensors& in) { return frozen(in, in); },
          .frozen = frozen};
}

std::vector<Sample> quality_samples(Rng& rng, QualityTerm term) {
  return {quality_sample(rng, "detector", {2, 7, 5}, 2, term),
          quality_sample(rng, "gamma 1.5", {3, 6}, 1.5, term),
          quality_sample(rng, "pieces", {1, 300, 7}, 2, term),
          quality_sample(rng, "no images", {0, 3, 4}, 2, term)};
}

Sample cross_entropy_sample(Rng& rng, const char* label, int64_t rows, int64_t K, bool weighted,
                            double smoothing, int64_t ignored = 0) {
  Tensor x = uniform(rng, {rows, K}, -4, 4), labels = random_indices(rng, {rows}, K);
  for (int64_t i = 0; i < ignored; ++i) labels.data<int64_t>()[rng.below(rows)] = -1;
  Tensor weights = weighted ? uniform(rng, {K}, 0.1, 2) : Tensor();
  return {label,
          {x},
          [=](const Vars& v) { return cross_entropy(v[0], labels, weights, smoothing); },
          [=](const Tensors& in) {
            double sum = 0;
            for (int64_t r = 0; r < rows; ++r) {
              if (labels.data<int64_t>()[r] < 0) continue;
              const double* p = in[0].data<double>() + r * K;
              double total = 0;
              for (int64_t k = 0; k < K; ++k) total += std::exp(p[k]);
              for (int64_t k = 0; k < K; ++k) {
                double w = weighted ? weights.data<double>()[k] : 1;
                double share = smoothing / static_cast<double>(K);
                if (labels.data<int64_t>()[r] == k) share += 1 - smoothing;
                sum -= share * w * (p[k] - std::log(total));
              }
            }
            return Tensor::scalar(sum, DType::kF64);
          }};
}

// Makes boxes around the targets: overlapping, inside, outside and apart, with no two edges in one place.
Sample box_sample(Rng& rng, const char* label, int64_t pairs, bool giou) {
  Tensor x = uniform(rng, {pairs, 4}, 0.1, 0.9), targets = uniform(rng, {pairs, 4}, 0.1, 0.9);
  double *b = x.data<double>(), *t = targets.data<double>();
  for (int64_t i = 0; i < pairs; ++i) {
    for (int axis = 0; axis < 2; ++axis) {
      // No edge of one box within 1e-3 of one of the other.
      auto edge = [&](const double* box, int side) { return box[axis] + (side - 0.5) * box[axis + 2]; };
      for (bool near = true; near;) {
        near = false;
        for (int k = 0; k < 4; ++k)
          near = near || std::abs(edge(b + 4 * i, k / 2) - edge(t + 4 * i, k % 2)) < 1e-3;
        for (int k : {axis, axis + 2}) near = near || std::abs(b[4 * i + k] - t[4 * i + k]) < 1e-3;
        if (near) b[4 * i + axis] += 0.0137, b[4 * i + axis + 2] += 0.0071;
      }
    }
  }
  auto reference = [=](const Tensors& in) {
    double sum = 0;
    for (int64_t i = 0; i < pairs; ++i) {
      const double *p = in[0].data<double>() + 4 * i, *q = targets.data<double>() + 4 * i;
      if (!giou) {
        for (int k = 0; k < 4; ++k) sum += std::abs(p[k] - q[k]);
        continue;
      }
      double inner = 1, outer = 1;
      for (int a = 0; a < 2; ++a) {
        double low = p[a] - p[a + 2] / 2, high = p[a] + p[a + 2] / 2;
        double other_low = q[a] - q[a + 2] / 2, other_high = q[a] + q[a + 2] / 2;
        inner *= std::max(0.0, std::min(high, other_high) - std::max(low, other_low));
        outer *= std::max(high, other_high) - std::min(low, other_low);
      }
      double all = p[2] * p[3] + q[2] * q[3] - inner;
      sum += 1 - (inner / all - (outer - all) / outer);
    }
    return Tensor::scalar(sum, DType::kF64);
  };
  return {label,
          {x},
          [=](const Vars& v) { return giou ? giou_loss(v[0], targets) : l1_loss(v[0], targets); },
          reference};
}

constexpr Rounding kLossSum{
    .why = "a few ulp per element, summed in lanes and f64; gradients given as bf16 round"};

Tensor labels_of(const Shape& shape, int64_t value) {
  Tensor t = Tensor::empty(shape, DType::kI64);
  t.fill(static_cast<double>(value));
  return t;
}

const Register kFocal(Row{
    "sigmoid_focal_loss",
    Bf16::kExact,
    kLossSum,
    [](Rng& rng) {
      return std::vector<Sample>{
          focal_sample(rng, "detector", {2, 7, 5}, 2),   focal_sample(rng, "gamma 1.5", {3, 6}, 1.5),
          focal_sample(rng, "gamma 0", {3, 6}, 0),       focal_sample(rng, "one class", {2, 9, 1}, 2),
          focal_sample(rng, "pieces", {1, 300, 7}, 2),   focal_sample(rng, "wide rows", {2, 1500}, 2),
          focal_sample(rng, "no queries", {2, 0, 4}, 2), focal_sample(rng, "one row", {4}, 2)};
    },
    {{"label beyond no-object",
      [] {
        sigmoid_focal_loss(Var(Tensor::zeros({2, 3})), labels_of({2}, 4), 0.25, 2);
      },
      R"(\[sigmoid_focal_loss\] label 0, got 4, expected -1 to 3)"},
     {"labels of another shape",
      [] {
        sigmoid_focal_loss(Var(Tensor::zeros({2, 3})), labels_of({3}, 0), 0.25, 2);
      },
      R"(\[sigmoid_focal_loss\] labels, got i64 \[3\], expected i64 \[2\])"}}});

const Register kVarifocal(Row{
    "varifocal_loss",
    Bf16::kExact,
    kLossSum,
    [](Rng& rng) { return quality_samples(rng, varifocal_of); },
    {{"quality of another shape",
      [] {
        varifocal_loss(Var(Tensor::zeros({2, 3})), labels_of({2}, 0), Tensor::zeros({2, 3}), 0.75, 2);
      },
      R"(\[varifocal_loss\] quality, got f32 \[2, 3\], expected floating \[2\])"}}});

const Register kMatchability(Row{
    "matchability_loss",
    Bf16::kExact,
    kLossSum,
    [](Rng& rng) { return quality_samples(rng, matchability_of); },
    {{"quality of another shape",
      [] {
        matchability_loss(Var(Tensor::zeros({2, 3})), labels_of({2}, 0), Tensor::zeros({3}), 2);
      },
      R"(\[matchability_loss\] quality, got f32 \[3\], expected floating \[2\])"}}});

const Register kIouAware(Row{
    "iou_aware_loss",
    Bf16::kExact,
    kLossSum,
    [](Rng& rng) { return quality_samples(rng, iou_aware_of); },
    {{"label beyond no-object",
      [] {
        iou_aware_loss(Var(Tensor::zeros({2, 3})), labels_of({2}, 4), Tensor::zeros({2}), 0.25, 2);
      },
      R"(\[iou_aware_loss\] label 0, got 4, expected -1 to 3)"}}});

const Register kCrossEntropy(Row{
    "cross_entropy",
    Bf16::kExact,
    kLossSum,
    [](Rng& rng) {
      return std::vector<Sample>{cross_entropy_sample(rng, "plain", 9, 7, false, 0),
                                 cross_entropy_sample(rng, "weights", 9, 7, true, 0),
                                 cross_entropy_sample(rng, "smoothing", 9, 7, false, 0.1),
                                 cross_entropy_sample(rng, "weights and smoothing", 5, 70, true, 0.1),
                                 cross_entropy_sample(rng, "pieces", 70, 3, true, 0),
                                 cross_entropy_sample(rng, "one class", 2, 1, false, 0),
                                 cross_entropy_sample(rng, "ignored rows", 20, 7, true, 0.1, 10),
                                 cross_entropy_sample(rng, "nothing but ignored rows", 1, 3, false, 0, 1),
                                 cross_entropy_sample(rng, "no rows", 0, 4, true, 0.1)};
    },
    {{"negative label",
      [] {
        cross_entropy(Var(Tensor::zeros({2, 3})), labels_of({2}, -2), {});
      },
      R"(\[cross_entropy\] label 0, got -2, expected -1 to 2)"},
     {"rank",
      [] {
        cross_entropy(Var(Tensor::zeros({2, 2, 3})), labels_of({2, 2}, 0), {});
      },
      R"(\[cross_entropy\] logits, got \[2, 2, 3\], expected \[R, K\])"},
     {"weights",
      [] {
        cross_entropy(Var(Tensor::zeros({2, 3})), labels_of({2}, 0), Tensor::zeros({2}));
      },
      R"(\[cross_entropy\] class weights, got f32 \[2\], expected floating \[3\])"}}});

const Register kGiou(Row{
    "giou_loss",
    Bf16::kNone,  // rounding the boxes would put edges at one place; the policy is that of the other losses
    {.why =
         "differences of edges that nearly meet (1e-3) cancel to 1e-4 relative in the worst term of a sum"},
    [](Rng& rng) {
      return std::vector<Sample>{box_sample(rng, "pairs", 40, true), box_sample(rng, "one", 1, true),
                                 box_sample(rng, "pieces", 300, true), box_sample(rng, "none", 0, true)};
    },
    {{"targets of another count",
      [] {
        giou_loss(Var(Tensor::zeros({2, 4})), Tensor::zeros({3, 4}));
      },
      R"(\[giou_loss\] targets, got f32 \[3, 4\], expected floating \[2, 4\])"},
     {"corners",
      [] {
        giou_loss(Var(Tensor::zeros({2, 3})), Tensor::zeros({2, 3}));
      },
      R"(\[giou_loss\] boxes, got \[2, 3\], expected \[K, 4\])"}}});

const Register kL1(Row{"l1_loss",
                       Bf16::kNone,
                       kLossSum,
                       [](Rng& rng) {
                         return std::vector<Sample>{
                             box_sample(rng, "pairs", 40, false), box_sample(rng, "one", 1, false),
                             box_sample(rng, "pieces", 600, false), box_sample(rng, "none", 0, false)};
                       },
                       {{"targets of another count",
                         [] {
                           l1_loss(Var(Tensor::zeros({2, 4})), Tensor::zeros({3, 4}));
                         },
                         R"(\[l1_loss\] targets, got f32 \[3, 4\], expected floating \[2, 4\])"}}});

Sample weighted_sum_sample(Rng& rng, const char* label, const std::vector<int64_t>& sizes) {
  Tensors vectors;
  std::vector<WeightedTerm> terms;
  for (size_t i = 0; i < sizes.size(); ++i) {
    vectors.push_back(uniform(rng, {sizes[i]}));
    // The terms are not in order.
    for (int64_t k = sizes[i]; k-- > 0;) terms.insert(terms.begin(), {i, k, rng.uniform(-2, 2)});
  }
  return {label, vectors,
          [=](const Vars& v) {
            Tensor parts;
            return weighted_sum(v, terms, parts);
          },
          [=](const Tensors& in) {
            double sum = 0;
            for (const WeightedTerm& t : terms) sum += t.factor * in[t.vector].data<double>()[t.element];
            return Tensor::scalar(sum, DType::kF64);
          }};
}

const Register kWeightedSum(Row{
    "weighted_sum",
    Bf16::kExact,
    {.why = "a product and an addition a term; gradients given as bf16 round"},
    [](Rng& rng) {
      return std::vector<Sample>{weighted_sum_sample(rng, "one", {1}),
                                 weighted_sum_sample(rng, "three", {6, 1, 6}),
                                 weighted_sum_sample(rng, "several launches", {100, 60})};
    },
    {{"a number in no term",
      [] {
        Tensor parts;
        weighted_sum({Var(Tensor::zeros({2}))}, {{0, 1, 1}}, parts);
      },
      R"(\[weighted_sum\] got 2 numbers for 1 terms)"},
     {"a number that is not there",
      [] {
        Tensor parts;
        weighted_sum({Var(Tensor::zeros({1}))}, {{0, 1, 1}}, parts);
      },
      R"(\[weighted_sum\] a term uses number 1 of vector 0, which does not exist)"}}});

}  // namespace
}  // namespace saccade::optable
