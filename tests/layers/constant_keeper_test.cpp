#include "layers/constant_keeper.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(ConstantKeeper, MakesWhatItDoesNotHoldWithinItsBounds) {
  ConstantKeeper keeper;
  int made = 0;
  auto get = [&](int64_t key, int64_t bytes) {
    return keeper.get(CacheKey().add(key), [&]() -> Tensors {
      ++made;
      return {Tensor::empty({bytes}, DType::kU8)};
    })[0];
  };
  EXPECT_EQ(get(1, 10).raw(), get(1, 10).raw());
  EXPECT_EQ(made, 1);
  // With many small entries the least recently used one leaves.
  const auto entries = static_cast<int64_t>(ConstantKeeper::kMaxEntries);
  for (int64_t key = 2; key <= entries; ++key) get(key, 10);
  get(1, 10);
  get(entries + 1, 10);
  EXPECT_EQ(keeper.size(), ConstantKeeper::kMaxEntries);
  made = 0;
  get(1, 10);
  EXPECT_EQ(made, 0);
  get(2, 10);
  EXPECT_EQ(made, 1);
  // One entry fills nearly everything, and one is too large.
  const auto most = static_cast<int64_t>(ConstantKeeper::kMaxBytes);
  get(100, most - 20);
  EXPECT_LE(keeper.bytes(), ConstantKeeper::kMaxBytes);
  EXPECT_EQ(keeper.size(), 3U);
  get(101, most + 1);
  EXPECT_EQ(keeper.size(), 3U);
}

}  // namespace
}  // namespace saccade
