// Accuracy of core/tensor/math.h against the C library in f64.
#include "core/tensor/math.h"

#include <gtest/gtest.h>

#include <functional>

namespace saccade {
namespace {

// Largest error of f in units in the last place of the f32 result, over a dense sweep of [low, high].
double worst_ulp(float (*f)(float), double (*exact)(double), double low, double high) {
  double worst = 0;
  constexpr int kSteps = 400000;
  for (int i = 0; i <= kSteps; ++i) {
    float x = static_cast<float>(low + (high - low) * i / kSteps);
    double want = exact(static_cast<double>(x));
    float nearest = std::abs(static_cast<float>(want));
    double ulp = std::nextafter(nearest, std::numeric_limits<float>::infinity()) - nearest;
    double error = std::abs(static_cast<double>(f(x)) - want) / ulp;
    if (error > worst) worst = error;
  }
  return worst;
}

float exp_f(float x) { return math::exp(x); }
float log_f(float x) { return math::log(x); }
float log1p_f(float x) { return math::log1p(x); }
float tanh_f(float x) { return math::tanh(x); }
float erf_f(float x) { return math::erf(x); }
float sigmoid_f(float x) { return math::sigmoid(x); }

TEST(Math, ExpIsWithinTwoUlp) {
  EXPECT_LE(worst_ulp(exp_f, std::exp, -87, 88.7), 2);
  EXPECT_LE(worst_ulp(exp_f, std::exp, -1, 1), 2);
  EXPECT_LE(worst_ulp(exp_f, std::exp, -103, -87), 2) << "subnormal results";
}

TEST(Math, LogIsWithinTwoUlp) {
  EXPECT_LE(worst_ulp(log_f, std::log, 0.3, 3), 2);
  EXPECT_LE(worst_ulp(log_f, std::log, 1e-30, 1e30), 2);
  EXPECT_LE(worst_ulp(log_f, std::log, 1e-45, 1e-38), 2) << "subnormal arguments";
}

TEST(Math, OthersAreWithinFourUlp) {
  EXPECT_LE(worst_ulp(log1p_f, std::log1p, -0.9, 2), 4);
  EXPECT_LE(worst_ulp(log1p_f, std::log1p, 0, 1e-4), 4);
  EXPECT_LE(worst_ulp(tanh_f, std::tanh, -10, 10), 4);
  EXPECT_LE(worst_ulp(tanh_f, std::tanh, -0.7, 0.7), 4);
  EXPECT_LE(worst_ulp(erf_f, std::erf, -5, 5), 4);
  EXPECT_LE(worst_ulp(
                sigmoid_f, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80),
            4);
}

TEST(Math, SpecialValues) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(math::exp(-inf), 0.0f);
  EXPECT_EQ(math::exp(inf), inf);
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(math::exp(nan)));
  EXPECT_EQ(math::log(0.0f), -inf);
  EXPECT_EQ(math::log(1.0f), 0.0f);
  EXPECT_EQ(math::log(inf), inf);
  EXPECT_TRUE(std::isnan(math::log(-1.0f)));
  EXPECT_TRUE(std::isnan(math::log(nan)));
  EXPECT_EQ(math::tanh(inf), 1.0f);
  EXPECT_EQ(math::tanh(-inf), -1.0f);
  EXPECT_TRUE(std::isnan(math::tanh(nan)));
  EXPECT_EQ(math::erf(-inf), -1.0f);
  EXPECT_TRUE(std::isnan(math::erf(nan)));
  EXPECT_EQ(math::sigmoid(-inf), 0.0f);
  EXPECT_EQ(math::sigmoid(inf), 1.0f);
  EXPECT_TRUE(std::isnan(math::max(nan, 1.0f)));
  EXPECT_TRUE(std::isnan(math::max(1.0f, nan)));
  EXPECT_TRUE(std::isnan(math::min(1.0f, nan)));
}

}  // namespace
}  // namespace saccade
