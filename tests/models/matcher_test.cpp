// Tests the assignment against scipy (tests/golden/matcher, scripts/golden/make_matcher.py) and the matcher
// against an exhaustive search over naive costs.
#include "models/detection/matcher.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "core/kernels/match_cost/match_cost.h"
#include "core/tensor/philox.h"
#include "tests/objects.h"

namespace saccade {
namespace {

const MatcherOptions kFocal{
    .class_cost = 2, .bbox_cost = 5, .giou_cost = 2, .focal_alpha = 0.25, .focal_gamma = 2};  // of the papers

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double total_of(const Assignment& a, const std::vector<double>& cost, int64_t columns) {
  double sum = 0;
  for (size_t k = 0; k < a.rows.size(); ++k)
    sum += cost[static_cast<size_t>(a.rows[k] * columns + a.columns[k])];
  return sum;
}

TEST(Assignment, CostEqualsScipyOnThousandProblems) {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/matcher/cases.txt");
  std::string line;
  int count = 0;
  for (; std::getline(file, line); ++count) {
    std::istringstream in(line);
    int64_t rows, columns;
    double best;
    in >> rows >> columns >> best;
    std::vector<double> cost;
    for (std::string word; in >> word;) cost.push_back(std::stod(word));
    ASSERT_EQ(static_cast<int64_t>(cost.size()), rows * columns);
    Assignment a = linear_sum_assignment(cost, rows, columns);
    ASSERT_EQ(a.rows.size(), static_cast<size_t>(std::min(rows, columns)));
    EXPECT_TRUE(std::is_sorted(a.rows.begin(), a.rows.end()));
    EXPECT_EQ(std::set<int64_t>(a.rows.begin(), a.rows.end()).size(), a.rows.size());
    EXPECT_EQ(std::set<int64_t>(a.columns.begin(), a.columns.end()).size(), a.rows.size());
    EXPECT_NEAR(total_of(a, cost, columns), best, 1e-9) << "problem " << count + 1;
    EXPECT_EQ(linear_sum_assignment(cost, rows, columns).columns, a.columns);
  }
  EXPECT_EQ(count, 1000);
}

TEST(Assignment, TiesGoToTheLowestIndex) {
  std::vector<double> equal(12, 1.0);
  EXPECT_EQ(linear_sum_assignment(equal, 3, 4).columns, (std::vector<int64_t>{0, 1, 2}));
  Assignment tall = linear_sum_assignment(equal, 4, 3);
  EXPECT_EQ(tall.rows, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(tall.columns, (std::vector<int64_t>{0, 1, 2}));
}

TEST(Assignment, EmptyAndImpossible) {
  EXPECT_TRUE(linear_sum_assignment({}, 0, 5).rows.empty());
  EXPECT_TRUE(linear_sum_assignment({}, 5, 0).rows.empty());
  auto message = [](std::vector<double> cost, int64_t rows, int64_t columns) {
    try {
      linear_sum_assignment(cost, rows, columns);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({1, kInfinity, 2, kInfinity}, 2, 2),
            "[assignment] no assignment of 2 rows and 2 columns has a finite cost");
  EXPECT_EQ(message({1, 2, 3, std::nan("")}, 2, 2),
            "[assignment] the cost of row 1, column 1 is nan, expected a number");
  EXPECT_EQ(message({std::nan(""), 1, 2, 3}, 2, 2),
            "[assignment] the cost of row 0, column 0 is nan, expected a number");
  EXPECT_EQ(message({1, 2, -kInfinity, 3}, 2, 2),
            "[assignment] the cost of row 1, column 0 is -inf, expected a number");
}

struct MatcherCase {
  MatchLayer layer;
  std::vector<Target> targets;
};

MatcherCase random_case(uint64_t seed, int64_t N, int64_t Q, int64_t K, int64_t objects) {
  Rng rng(seed);
  auto random = [&](const Shape& shape, double low, double high) {
    std::vector<float> v(static_cast<size_t>(shape.numel()));
    for (float& x : v) x = static_cast<float>(rng.uniform(low, high));
    return Tensor::from<float>(shape, v);
  };
  MatcherCase c{{random({N, Q, K}, -3, 3), random({N, Q, 4}, 0.1, 0.6)}, {}};
  for (int64_t n = 0; n < N; ++n) {
    Target t;
    t.image_id = 100 + n;
    t.file_name = fmt::format("{}.jpg", n);
    int64_t count = n == 0 ? objects : rng.below(objects + 1);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t label = rng.below(K);
      std::array<float, 4> box;
      for (float& v : box) v = static_cast<float>(rng.uniform(0.1, 0.6));
      test::add_object(t, label, box);
    }
    c.targets.push_back(t);
  }
  return c;
}

// Computes the official code's formulas in f64.
double naive_cost(const MatcherCase& c, const MatcherOptions& o, int64_t n, int64_t q, int64_t t) {
  const Objects objects({c.targets[static_cast<size_t>(n)]});
  int64_t Q = c.layer.logits.dim(1), K = c.layer.logits.dim(2);
  const float* x = c.layer.logits.data<float>() + (n * Q + q) * K;
  const float *b = c.layer.boxes.data<float>() + (n * Q + q) * 4, *g = objects.box(0, t);
  int64_t label = c.layer.binary ? 0 : objects.label(0, t);
  double of_class;
  if (o.probabilities) {
    double sum = 0;
    for (int64_t k = 0; k < K; ++k) sum += std::exp(double{x[k]});
    of_class = -std::exp(double{x[label]}) / sum;
  } else {
    double p = 1 / (1 + std::exp(-double{x[label]}));
    of_class = o.focal_alpha * std::pow(1 - p, o.focal_gamma) * -std::log(p + 1e-8) -
               (1 - o.focal_alpha) * std::pow(p, o.focal_gamma) * -std::log(1 - p + 1e-8);
  }
  double distance = 0, both = 1, hull = 1;
  for (int k = 0; k < 4; ++k) distance += std::abs(double{b[k]} - g[k]);
  for (int a = 0; a < 2; ++a) {
    double b0 = b[a] - b[a + 2] / 2.0, b1 = b[a] + b[a + 2] / 2.0, g0 = g[a] - g[a + 2] / 2.0,
           g1 = g[a] + g[a + 2] / 2.0;
    both *= std::max(0.0, std::min(b1, g1) - std::max(b0, g0));
    hull *= std::max(b1, g1) - std::min(b0, g0);
  }
  double either = double{b[2]} * b[3] + double{g[2]} * g[3] - both;
  return o.class_cost * of_class + o.bbox_cost * distance -
         o.giou_cost * (both / either - (hull - either) / hull);
}

// Returns the least cost of giving objects t, t + 1, ... of image n to free queries in [begin, end).
double search(const MatcherCase& c, const MatcherOptions& o, int64_t n, int64_t t, int64_t begin, int64_t end,
              std::set<int64_t>& used) {
  if (t == static_cast<int64_t>(c.targets[static_cast<size_t>(n)].instances.size())) return 0;
  double best = kInfinity;
  for (int64_t q = begin; q < end; ++q) {
    if (!used.insert(q).second) continue;
    best = std::min(best, naive_cost(c, o, n, q, t) + search(c, o, n, t + 1, begin, end, used));
    used.erase(q);
  }
  return best;
}

// On a CPU the kernel takes 256 queries at once.
TEST(Matcher, CostsOfManyQueries) {
  constexpr int64_t kQueries = 600;
  const MatcherCase c = random_case(11, 2, kQueries, 5, 3);
  const Objects objects(c.targets);
  std::vector<int64_t> images, labels;
  std::vector<float> truth;
  std::vector<double> expected;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t t = 0; t < objects.count(n); ++t) {
      images.push_back(n);
      labels.push_back(objects.label(n, t));
      truth.insert(truth.end(), objects.box(n, t), objects.box(n, t) + 4);
      for (int64_t q = 0; q < kQueries; ++q) expected.push_back(naive_cost(c, kFocal, n, q, t));
    }
  const int64_t rows = std::ssize(images);
  Tensor cost = Tensor::empty({rows, kQueries});
  kernels::match_cost(c.layer.logits, c.layer.boxes, Tensor::from<int64_t>({rows}, images),
                      Tensor::from<int64_t>({rows}, labels), Tensor::from<float>({rows, 4}, truth),
                      {.class_cost = kFocal.class_cost,
                       .bbox_cost = kFocal.bbox_cost,
                       .giou_cost = kFocal.giou_cost,
                       .alpha = kFocal.focal_alpha,
                       .gamma = kFocal.focal_gamma,
                       .probabilities = false},
                      cost);
  const std::vector<float> found = cost.to_vector<float>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(Matcher, EqualsExhaustiveSearch) {
  const MatcherOptions odd{
      .class_cost = 1, .bbox_cost = 2, .giou_cost = 3, .focal_alpha = 0.6, .focal_gamma = 1.5},
      softmax{.class_cost = 1, .bbox_cost = 5, .giou_cost = 2, .probabilities = true};
  int seed = 0;
  for (const MatcherOptions& o : {kFocal, odd, softmax}) {
    for (bool binary : {false, true}) {
      MatcherCase c = random_case(static_cast<uint64_t>(++seed), 3, 14, 5, 4);
      c.layer.binary = binary;
      c.layer.groups = 2;
      Matching m = match({c.layer}, c.targets, o);
      EXPECT_TRUE(m.problems.empty());
      for (int64_t n = 0; n < 3; ++n) {
        for (int64_t g = 0; g < 2; ++g) {
          double got = 0;
          size_t count = 0;
          for (const MatchedPair& p : m.layers[0]) {
            if (p.image != n || p.query / 7 != g) continue;
            got += naive_cost(c, o, n, p.query, p.object);
            ++count;
          }
          EXPECT_EQ(count, c.targets[static_cast<size_t>(n)].instances.size());
          std::set<int64_t> used;
          // costs are computed in f32: 1e-5 of values of order 10
          EXPECT_NEAR(got, search(c, o, n, 0, g * 7, g * 7 + 7, used), 1e-4);
        }
      }
    }
  }
}

TEST(Matcher, RepeatsObjectsInExtraGroups) {
  MatcherCase c = random_case(5, 2, 24, 3, 3);
  c.layer.groups = 2;
  c.layer.repeat = 3;
  Matching m = match({c.layer}, c.targets, kFocal);
  for (int64_t n = 0; n < 2; ++n) {
    auto T = static_cast<int64_t>(c.targets[static_cast<size_t>(n)].instances.size());
    std::vector<int64_t> first(static_cast<size_t>(T)), second(static_cast<size_t>(T));
    std::set<int64_t> queries;
    for (const MatchedPair& p : m.layers[0]) {
      if (p.image != n) continue;
      ++(p.query < 12 ? first : second)[static_cast<size_t>(p.object)];
      EXPECT_TRUE(queries.insert(p.query).second);
    }
    EXPECT_EQ(first, std::vector<int64_t>(static_cast<size_t>(T), 1));
    EXPECT_EQ(second, std::vector<int64_t>(static_cast<size_t>(T), 3));
  }
}

TEST(Matcher, FewerQueriesThanObjectsAndNone) {
  MatcherCase c = random_case(6, 2, 3, 4, 6);
  Matching m = match({c.layer}, c.targets, kFocal);
  EXPECT_EQ(std::count_if(m.layers[0].begin(), m.layers[0].end(), [](auto& p) { return p.image == 0; }), 3);
  for (Target& t : c.targets) t.instances.clear();
  EXPECT_TRUE(match({c.layer}, c.targets, kFocal).layers[0].empty());
  MatcherCase none = random_case(7, 2, 0, 4, 3);
  EXPECT_TRUE(match({none.layer}, none.targets, kFocal).layers[0].empty());
  EXPECT_TRUE(match({{Tensor::zeros({0, 5, 4}), Tensor::zeros({0, 5, 4})}}, {}, kFocal).layers[0].empty());
}

TEST(Matcher, BrokenPredictionsAreNamedAndComeLast) {
  MatcherCase c = random_case(8, 3, 6, 4, 2);
  c.targets[1] = c.targets[0];
  c.targets[1].image_id = 101;
  c.targets[1].file_name = "1.jpg";
  MatchLayer good = c.layer;
  c.layer.boxes = c.layer.boxes.clone();
  c.layer.boxes.data<float>()[(6 + 4) * 4 + 2] = std::nanf("");  // image 1, query 4
  c.layer.name = "layer 3";
  Matching m = match({good, c.layer}, c.targets, kFocal);
  ASSERT_EQ(m.problems.size(), 1u);
  EXPECT_EQ(m.problems[0], "image 101 (1.jpg), layer 3: the predicted box of query 4 is not finite");
  EXPECT_EQ(m.bad_images, std::vector<int64_t>{101});
  for (const MatchedPair& p : m.layers[1]) EXPECT_FALSE(p.image == 1 && p.query == 4);
}

TEST(Matcher, ImpossibleTargetsAreErrors) {
  auto message = [](const std::function<void(MatcherCase&)>& spoil) {
    MatcherCase c = random_case(9, 2, 6, 4, 2);
    spoil(c);
    try {
      match({c.layer}, c.targets, kFocal);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([](MatcherCase&) {}), "");
  EXPECT_EQ(message([](MatcherCase& c) { c.targets[0].instances[1].label = 4; }),
            "[matcher] image 100 (0.jpg): object 1 has class 4, expected 0 to 3");
  EXPECT_EQ(
      message([](MatcherCase& c) { c.targets[0].instances[0].box = box_of_centre(0.5, 0.5, -0.25, 0.5); }),
      "[matcher] image 100 (0.jpg): object 0 has box (0.5, 0.5, -0.25, 0.5), expected finite (cx, cy, w, h) "
      "with w and h not negative");
  EXPECT_EQ(message([](MatcherCase& c) { c.layer.groups = 4; }),
            "[matcher] 6 queries do not split into 4 groups (repeat 1)");
}

TEST(Matcher, ThreadCountChangesNothing) {
  MatcherCase c = random_case(10, 4, 300, 7, 20);
  int threads = omp_get_max_threads();
  std::vector<std::vector<int64_t>> seen;
  for (int n : {1, 2, 5}) {
    omp_set_num_threads(n);
    std::vector<int64_t> flat;
    Matching m = match({c.layer}, c.targets, kFocal);
    for (const MatchedPair& p : m.layers[0]) flat.insert(flat.end(), {p.image, p.query, p.object});
    seen.push_back(flat);
    EXPECT_EQ(flat, seen[0]);
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace saccade
