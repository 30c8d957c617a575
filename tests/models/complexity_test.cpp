// Compares the costs of docs/complexity.md with counted multiply-accumulates, over a sweep of sizes.
#include <gtest/gtest.h>

#include "layers/attention.h"
#include "models/summary.h"

namespace saccade {
namespace {

struct Problem {
  int64_t queries, dim, heads, points;
  FeatureLevels levels;

  int64_t tokens() const { return levels.tokens(); }
  int64_t level_count() const { return levels.size(); }
};

// Returns what one forward pass counts.
int64_t counted(const std::string& name, const Problem& p, const Args& args = {}) {
  const AttentionSpec& spec = attention_layers().find(name);
  auto layer = spec.make({p.dim, p.heads, p.level_count(), p.points, 0}, args);
  layer->initialize(1);
  AttentionInput in;
  in.query = Var(Tensor::zeros({1, p.queries, p.dim}));
  in.key = spec.inputs == AttentionInputs::kOneMap ? in.query : Var(Tensor::zeros({1, p.tokens(), p.dim}));
  in.value = spec.inputs == AttentionInputs::kOneMap ? in.query : Var(Tensor::zeros({1, p.tokens(), p.dim}));
  in.reference_points = Var(Tensor::full({1, p.queries, p.level_count(), 2}, 0.5));
  in.levels = p.levels;
  if (layer->separates_positions()) {
    in.query_position = in.query;
    in.key_position = in.key;
  }
  return summarize(*layer, [&] { layer->forward(in); }).macs;
}

std::vector<Problem> sweep() {
  std::vector<Problem> problems;
  for (int64_t side : {4, 7, 16})
    for (int64_t dim : {16, 64})
      for (int64_t heads : {2, 8})
        problems.push_back({3 * side, dim, heads, 4, {{2 * side, side}, {side, (side + 1) / 2}}});
  return problems;
}

TEST(Complexity, MultiHeadAttention) {
  for (const Problem& p : sweep()) {
    int64_t Q = p.queries, S = p.tokens(), C = p.dim;
    // Four projections, the scores and the weighted sums.
    EXPECT_EQ(counted("multi_head_attention", p), 2 * Q * C * C + 2 * S * C * C + 2 * Q * S * C);
  }
}

TEST(Complexity, ConditionalAttention) {
  for (const Problem& p : sweep()) {
    int64_t Q = p.queries, S = p.tokens(), C = p.dim;
    EXPECT_EQ(counted("conditional_attention", p), 3 * Q * C * C + 3 * S * C * C + 3 * Q * S * C);
  }
}

TEST(Complexity, MultiScaleDeformableAttention) {
  for (const Problem& p : sweep()) {
    int64_t Q = p.queries, S = p.tokens(), C = p.dim, M = p.heads, LK = p.level_count() * p.points;
    // Deformable DETR, section 4.1: 5 N_q K C for the sampling and 3 N_q C M K for offsets and weights.
    EXPECT_EQ(counted("ms_deform_attn", p), Q * C * C + S * C * C + 5 * Q * LK * C + 3 * Q * C * M * LK);
  }
}

TEST(Complexity, SingleScaleDeformableAttention) {
  for (Problem p : sweep()) {
    int64_t Q = p.queries, C = p.dim, M = p.heads, K = p.points;
    int64_t S = p.levels[0].height * p.levels[0].width;  // of its one map
    EXPECT_EQ(counted("deformable_attention", p), Q * C * C + S * C * C + 5 * Q * K * C + 3 * Q * C * M * K);
  }
}

TEST(Complexity, DeformableMultiHeadAttention) {
  for (int64_t side : {4, 7, 16}) {
    for (int64_t stride : {1, 2}) {
      for (int64_t kernel : {3, 5}) {
        int64_t C = 32, M = 8, H = 2 * side, W = side, N = H * W;
        int64_t S = ((H - 1) / stride + 1) * ((W - 1) / stride + 1);
        Args args;
        args.set("stride", stride);
        args.set("kernel", kernel);
        args.set("groups", int64_t{4});
        // Xia et al. 2022, section 3.2, and the bilinear samples that it leaves out: keys and bias.
        int64_t paper = 2 * N * S * C + 2 * N * C * C + 2 * S * C * C + (kernel * kernel + 2) * S * C;
        EXPECT_EQ(counted("dmha", {N, C, M, 4, {{H, W}}}, args), paper + 4 * S * C + 4 * M * N * S);
      }
    }
  }
}

TEST(Complexity, WindowAttention) {
  for (int64_t side : {4, 7, 16}) {
    for (int64_t window : {2, 4, 7}) {
      int64_t C = 32, H = 2 * side, W = side, N = H * W, w = std::min(window, W);
      int64_t filled = (H + w - 1) / w * w * ((W + w - 1) / w * w);
      Args args;
      args.set("window", window);
      args.set("shrink", true);
      EXPECT_EQ(counted("window", {N, C, 4, 4, {{H, W}}}, args), 4 * N * C * C + 2 * w * w * filled * C);
    }
  }
}

TEST(Complexity, NeighbourhoodAttention) {
  for (int64_t side : {4, 7, 16}) {
    for (int64_t window : {3, 7}) {
      int64_t C = 32, H = 2 * side, W = side, N = H * W, filled = H * std::max(W, window);
      Args args;
      args.set("window", window);
      EXPECT_EQ(counted("neighbourhood", {N, C, 4, 4, {{H, W}}}, args),
                (3 * filled + N) * C * C + 2 * window * window * filled * C);
    }
  }
}

TEST(Complexity, SpatialReduction) {
  for (int64_t side : {4, 7, 16}) {
    for (int64_t r : {1, 2, 4}) {
      int64_t C = 32, H = 2 * side, W = side, N = H * W, S = (H + r - 1) / r * ((W + r - 1) / r);
      Args args;
      args.set("reduction", r);
      int64_t reducing = r == 1 ? 0 : S * r * r * C * C;
      EXPECT_EQ(counted("spatial_reduction", {N, C, 4, 4, {{H, W}}}, args),
                2 * N * C * C + 2 * S * C * C + 2 * N * S * C + reducing);
    }
  }
}

// In an encoder every token is a query. Twice the tokens cost a deformable layer twice as much and dot
// products four times.
TEST(Complexity, InTheNumberOfTokens) {
  auto encoder = [](const std::string& name, int64_t side) {
    return counted(name, {side * side, 32, 4, 4, {{side, side}}});
  };
  auto products = [&](int64_t side) {  // without the projections
    return encoder("multi_head_attention", side) - 4 * side * side * 32 * 32;
  };
  for (int64_t side : {8, 16, 24}) {
    EXPECT_EQ(encoder("ms_deform_attn", 2 * side), 4 * encoder("ms_deform_attn", side));
    EXPECT_EQ(products(2 * side), 16 * products(side));
    EXPECT_EQ(encoder("window", 14 * side), 4 * encoder("window", 7 * side));
  }
}

}  // namespace
}  // namespace saccade
