// Tests what the generated tests leave open: which keys a query sees, ignored tokens, maps smaller than the
// window, and an independent PyTorch layer (scripts/golden/make_dat.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "layers/attention.h"
#include "tests/autograd/golden.h"
#include "tests/input_error.h"

namespace saccade {
namespace {

constexpr int64_t kNeighbourDim = 8;

std::shared_ptr<Attention> make_neighbourhood(int64_t window) {
  Args args;
  args.set("type", "neighbourhood");
  args.set("window", window);
  auto layer = make_attention(args, "", {.dim = kNeighbourDim, .heads = 2});
  layer->initialize(3);
  return layer;
}

AttentionInput map_input(MapSize map, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty({2, map.cells(), kNeighbourDim});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  Var x(t);
  return {.query = x, .key = x, .value = x, .levels = {map}};
}

// With equal scores the gradient of a value is 1/49 for the queries that see it.
TEST(NeighbourhoodAttention, EveryQuerySees49KeysNearIt) {
  constexpr int64_t kHeight = 10, kWidth = 17, kWindow = 7;
  Tensor x = Tensor::zeros({1, kHeight, kWidth, 3});
  for (int64_t y = 0; y < kHeight; ++y) {
    for (int64_t q = 0; q < kWidth; ++q) {
      Var qkv(x, true);
      Var seen = neighbourhood_attention(qkv, {}, {}, {.heads = 1, .window = kWindow});
      backward(slice(slice(seen, 1, y, y + 1), 2, q, q + 1), Tensor::full({1, 1, 1, 1}, 49));
      const auto gradient = qkv.grad().to_vector<float>();
      int64_t keys = 0, top = kHeight, left = kWidth, bottom = 0, right = 0;
      for (int64_t i = 0; i < kHeight * kWidth; ++i) {
        const float g = gradient[static_cast<size_t>(3 * i + 2)];
        if (g == 0) continue;
        EXPECT_NEAR(g, 1, 1e-5);
        ++keys;
        top = std::min(top, i / kWidth), bottom = std::max(bottom, i / kWidth);
        left = std::min(left, i % kWidth), right = std::max(right, i % kWidth);
      }
      EXPECT_EQ(keys, 49) << y << ", " << q;
      EXPECT_EQ(bottom - top, 6);
      EXPECT_EQ(right - left, 6);
      EXPECT_EQ(top, std::clamp<int64_t>(y - 3, 0, kHeight - 7));
      EXPECT_EQ(left, std::clamp<int64_t>(q - 3, 0, kWidth - 7));
    }
  }
}

TEST(NeighbourhoodAttention, EqualsPyTorch) {
  Golden golden("dat/neighbourhood.safetensors");
  auto layer = make_neighbourhood(7);
  for (const NamedTensor& t : layer->parameters()) {
    Var v = t.var;
    v.value().copy_from(golden["weight." + t.name]);
  }
  AttentionInput in;
  in.query = in.key = in.value = Var(golden["x"], true);
  in.levels = {{9, 11}};
  auto expect_near = [](const Tensor& got, const Tensor& want, double tolerance, const std::string& name) {
    const auto a = got.to_vector<float>(), b = want.to_vector<float>();
    ASSERT_EQ(a.size(), b.size()) << name;
    double largest = 0;
    for (float x : b) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * (largest + 0.01)) << name;
  };
  Var y = layer->forward(in);
  expect_near(y.value(), golden["y"], 1e-5, "y");
  backward(y, golden["dy"]);
  expect_near(in.query.grad(), golden["dx"], 1e-4, "dx");
  for (const NamedTensor& t : layer->parameters())
    expect_near(t.var.grad(), golden["grad." + t.name], 1e-4, t.name);
}

TEST(NeighbourhoodAttention, IgnoredTokensChangeNoOtherToken) {
  for (MapSize map : {MapSize{4, 5}, MapSize{2, 10}}) {  // the second is filled up to three rows
    auto layer = make_neighbourhood(3);
    AttentionInput in = map_input(map, 7);
    auto unmasked = layer->forward(in).value().to_vector<float>();
    std::vector<int64_t> mask(40);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 4 == 1;
    in.padding_mask = Tensor::from<int64_t>({2, 20}, mask).to(DType::kBool);
    auto before = layer->forward(in).value().to_vector<float>();
    EXPECT_NE(before, unmasked);
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i])
        for (size_t c = 0; c < kNeighbourDim; ++c)
          in.query.value().data<float>()[i * kNeighbourDim + c] = 1e3f;
    auto after = layer->forward(in).value().to_vector<float>();
    for (size_t i = 0; i < before.size(); ++i) {
      if (!mask[i / kNeighbourDim]) {
        EXPECT_EQ(before[i], after[i]) << i;
      }
    }
  }
}

TEST(NeighbourhoodAttention, RefusesWhatDoesNotFit) {
  EXPECT_NE(input_error([] { make_neighbourhood(4); }).find("window: 4 is even, expected an odd size"),
            std::string::npos);
}

}  // namespace
}  // namespace saccade
