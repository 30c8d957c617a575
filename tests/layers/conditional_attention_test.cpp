// Tests the initial scores of attention that keeps positions apart.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/args.h"
#include "layers/attention.h"
#include "layers/position_encoding.h"

namespace saccade {
namespace {

// The scores of positions alone: the sums of products of a head's part of the projected positions.
TEST(ConditionalAttention, BeginsAroundThePlaceOfTheQuery) {
  constexpr int64_t C = 32, H = 4, D = C / H, side = 8, S = side * side;
  auto layer = make_attention(Args("attention"), "conditional_attention", {.dim = C, .heads = H});
  layer->initialize(1);
  std::vector<float> weight;
  for (const NamedTensor& t : layer->named_tensors())
    if (t.name == "position_proj_weight") weight = t.var.value().to_vector<float>();
  ASSERT_EQ(weight.size(), static_cast<size_t>(2 * C * C));
  // y before x, as the tokens' positions.
  std::vector<float> centres;
  for (int64_t s = 0; s < S; ++s)
    for (int64_t at : {s / side, s % side}) centres.push_back((static_cast<float>(at) + 0.5f) / side);
  const auto positions =
      sine_box_encoding(Tensor::from<float>({S, 2}, centres), C / 2, 20).to_vector<float>();
  auto projected = [&](int64_t part, int64_t s, int64_t channel) {
    double sum = 0;
    for (int64_t c = 0; c < C; ++c)
      sum += double{weight[static_cast<size_t>((part * C + channel) * C + c)]} *
             positions[static_cast<size_t>(s * C + c)];
    return sum;
  };
  for (int64_t head = 0; head < H; ++head) {
    auto score = [&](int64_t query, int64_t key) {
      double sum = 0;
      for (int64_t d = head * D; d < (head + 1) * D; ++d)
        sum += projected(0, query, d) * projected(1, key, d);
      return sum / std::sqrt(2.0 * D);
    };
    // From the query's cell outwards, to both sides of both axes.
    constexpr int64_t y = 3, x = 4, query = y * side + x;
    for (int64_t step : {-side, -int64_t{1}, int64_t{1}, side}) {
      for (int64_t away = 1; away <= 3; ++away)
        EXPECT_LT(score(query, query + step * away), score(query, query + step * (away - 1)))
            << "head " << head << ", " << away << " steps of " << step;
      EXPECT_GT(score(query, query) - score(query, query + 3 * step), 0.5) << "head " << head;
    }
  }
}

}  // namespace
}  // namespace saccade
