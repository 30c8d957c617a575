// Tests what the generated tests leave open: ignored tokens, and windows that shrink with the map.
#include <gtest/gtest.h>

#include "layers/attention.h"

namespace saccade {
namespace {

constexpr int64_t kWindowDim = 8, kWindowHeads = 2;

std::shared_ptr<Attention> make(int64_t window, int64_t shift, bool shrink) {
  Args args;
  args.set("type", "window");
  args.set("window", window);
  args.set("shift", shift);
  args.set("shrink", shrink);
  auto layer = make_attention(args, "", {.dim = kWindowDim, .heads = kWindowHeads});
  layer->initialize(3);
  return layer;
}

AttentionInput input(MapSize map, uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty({2, map.height * map.width, kWindowDim});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  Var x(t);
  return {.query = x, .key = x, .value = x, .levels = {map}};
}

TEST(WindowAttention, IgnoredTokensChangeNoOtherToken) {
  auto layer = make(3, 1, false);
  AttentionInput in = input({4, 5}, 7);
  auto unmasked = layer->forward(in).value().to_vector<float>();
  std::vector<int64_t> mask(40);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 4 == 1;
  in.padding_mask = Tensor::from<int64_t>({2, 20}, mask).to(DType::kBool);
  auto before = layer->forward(in).value().to_vector<float>();
  EXPECT_NE(before, unmasked);
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i])
      for (size_t c = 0; c < kWindowDim; ++c) in.query.value().data<float>()[i * kWindowDim + c] = 1e3f;
  auto after = layer->forward(in).value().to_vector<float>();
  for (size_t i = 0; i < before.size(); ++i) {
    if (!mask[i / kWindowDim]) {
      EXPECT_EQ(before[i], after[i]) << i;
    }
  }
}

TEST(WindowAttention, AMapNoLargerThanTheWindowIsOneWindowWithoutShift) {
  for (MapSize map : {MapSize{4, 4}, MapSize{4, 6}, MapSize{3, 3}}) {
    AttentionInput in = input(map, 9);
    auto shrunk = make(4, 2, true)->forward(in).value().to_vector<float>();
    auto plain = make(4, 0, true)->forward(in).value().to_vector<float>();
    EXPECT_EQ(shrunk, plain);
    EXPECT_NE(shrunk, make(4, 2, false)->forward(in).value().to_vector<float>());
  }
  AttentionInput in = input({5, 6}, 9);
  EXPECT_EQ(make(4, 2, true)->forward(in).value().to_vector<float>(),
            make(4, 2, false)->forward(in).value().to_vector<float>());
}

}  // namespace
}  // namespace saccade
