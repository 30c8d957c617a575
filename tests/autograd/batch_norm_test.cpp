// Tests the running statistics of batch_norm, which its row of the op table does not see.
#include <gtest/gtest.h>

#include "autograd/ops.h"

namespace saccade {
namespace {

TEST(BatchNorm, MovesTheRunningStatisticsLikePyTorch) {
  // Columns (1, 2, 3, 6) and (-1, 1, -1, 1): means 3 and 0, unbiased variances 14 / 3 and 4 / 3.
  std::vector<float> values{1, -1, 2, 1, 3, -1, 6, 1};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    Var x(Tensor::from({4, 2}, values).to(dtype)), weight(Tensor::full({2}, 1)), bias(Tensor::zeros({2}));
    Tensor mean = Tensor::full({2}, 10), var = Tensor::full({2}, 2);
    batch_norm(x, weight, bias, mean, var, true, 0.25);
    auto m = mean.to_vector<double>(), v = var.to_vector<double>();
    EXPECT_NEAR(m[0], 0.75 * 10 + 0.25 * 3, 1e-6);
    EXPECT_NEAR(m[1], 0.75 * 10, 1e-6);
    EXPECT_NEAR(v[0], 0.75 * 2 + 0.25 * 14 / 3, 1e-6);
    EXPECT_NEAR(v[1], 0.75 * 2 + 0.25 * 4 / 3, 1e-6);
    batch_norm(x, weight, bias, mean, var, false);
    EXPECT_EQ(mean.to_vector<double>(), m);
    EXPECT_EQ(var.to_vector<double>(), v);
  }
}

TEST(BatchNorm, AnEmptyBatchAndOneRowLeaveFiniteStatistics) {
  Var weight(Tensor::full({2}, 1)), bias(Tensor::zeros({2}));
  Tensor mean = Tensor::full({2}, 10), var = Tensor::full({2}, 2);
  batch_norm(Var(Tensor::zeros({0, 2})), weight, bias, mean, var, true);
  EXPECT_EQ(mean.to_vector<float>(), std::vector<float>(2, 10));
  EXPECT_EQ(var.to_vector<float>(), std::vector<float>(2, 2));
  batch_norm(Var(Tensor::zeros({1, 2})), weight, bias, mean, var, true);
  EXPECT_NEAR(mean.to_vector<double>()[0], 9, 1e-6);
  EXPECT_NEAR(var.to_vector<double>()[0], 1.8, 1e-6);
}

}  // namespace
}  // namespace saccade
