#include "core/tensor/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/tensor/large_blocks.h"
#include "core/tensor/tensor.h"

namespace saccade {
namespace {

Allocator& cpu() { return allocator(Device::kCpu); }

class DebugScope {
 public:
  explicit DebugScope(AllocatorDebug debug) { cpu().set_debug(debug); }
  ~DebugScope() { cpu().set_debug({}); }
};

TEST(Allocator, StatisticsFollowTheBlocks) {
  AllocatorStats before = cpu().stats();
  void* p = cpu().allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
  EXPECT_EQ(cpu().stats().active_bytes, before.active_bytes + 1000);
  EXPECT_EQ(cpu().stats().requests, before.requests + 1);
  cpu().deallocate(p, 1000);
  EXPECT_EQ(cpu().stats().active_bytes, before.active_bytes);
}

TEST(Allocator, PeakIsTheHighestSinceReset) {
  cpu().reset_peak();
  int64_t base = cpu().stats().active_bytes;
  { Tensor a = Tensor::empty({1000}), b = Tensor::empty({500}); }
  { Tensor c = Tensor::empty({100}); }
  EXPECT_EQ(cpu().stats().peak_bytes, base + 6000);
  cpu().reset_peak();
  EXPECT_EQ(cpu().stats().peak_bytes, base);
}

TEST(Allocator, ReusesBlocksOfASizeClass) {
  void* p = cpu().allocate(100000);
  cpu().deallocate(p, 100000);
  int64_t system = cpu().stats().system_requests;
  void* q = cpu().allocate(99000);  // of the same class
  EXPECT_EQ(p, q);
  EXPECT_EQ(cpu().stats().system_requests, system);
  cpu().deallocate(q, 99000);
}

TEST(Allocator, TrimEmptiesTheCache) {
  cpu().deallocate(cpu().allocate(1 << 20), 1 << 20);
  EXPECT_GT(cpu().stats().cached_bytes, 1 << 20);
  cpu().trim();
  EXPECT_EQ(cpu().stats().cached_bytes, 0);
}

// The allocator uses LargeBlocks except under AddressSanitizer, where every block is the system's own.
TEST(LargeBlocks, LieInTheRoomOfOthers) {
  constexpr size_t kMega = size_t{1} << 20;
  LargeBlocks blocks;
  int grown = 0;
  const auto take = [&](size_t bytes) {
    const size_t room = LargeBlocks::room_for(bytes);
    if (void* block = blocks.take(room)) return block;
    EXPECT_TRUE(blocks.grow(room));
    ++grown;
    return blocks.take(room);
  };
  const auto give_back = [&](void* block, size_t bytes) {
    blocks.give_back(block, LargeBlocks::room_for(bytes));
  };
  std::vector<void*> thirds;
  for (int i = 0; i < 3; ++i) thirds.push_back(take(20 * kMega));
  for (size_t i : {0u, 2u, 1u}) give_back(thirds[i], 20 * kMega);
  const int before = grown;
  give_back(take(60 * kMega), 60 * kMega);
  EXPECT_EQ(grown, before);
  std::vector<void*> parts;
  for (size_t i = 1; i <= 9; ++i) parts.push_back(take(i * kMega));
  for (size_t i = 1; i <= 9; ++i) std::memset(parts[i - 1], static_cast<int>(i), i * kMega);
  for (size_t i = 1; i <= 9; ++i) {
    const auto* bytes = static_cast<const unsigned char*>(parts[i - 1]);
    EXPECT_TRUE(std::all_of(bytes, bytes + i * kMega, [&](unsigned char b) { return b == i; })) << i;
    give_back(parts[i - 1], i * kMega);
  }
  EXPECT_EQ(grown, before);
  blocks.trim();
  EXPECT_EQ(blocks.free_bytes(), 0);
}

TEST(Allocator, ZeroBytesGiveAPointer) {
  void* p = cpu().allocate(0);
  EXPECT_NE(p, nullptr);
  cpu().deallocate(p, 0);
}

TEST(Allocator, AHopelessRequestNamesTheFigures) {
  try {
    cpu().allocate(size_t{1} << 60);
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("out of CPU memory"), std::string::npos) << e.what();
  }
}

TEST(Allocator, PoisonIsNaN) {
  DebugScope debug({.poison = true});
  for (float v : Tensor::empty({100}).to_vector<float>()) EXPECT_TRUE(std::isnan(v));
  Tensor d = Tensor::empty({10}, DType::kF64);
  for (double v : d.to_vector<double>()) EXPECT_TRUE(std::isnan(v));
}

TEST(AllocatorDeathTest, GuardCatchesAWritePastTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        cpu().set_debug({.guard = true});
        Tensor t = Tensor::empty({10});
        static_cast<volatile char*>(t.raw())[40] = 1;
      },
      "write past the end of a 40-byte block");
}

}  // namespace
}  // namespace saccade
