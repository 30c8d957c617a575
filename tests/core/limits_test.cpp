// Tests excessive demands: sizes that overflow, memory and threads that the machine does not have, exceptions
// in parallel loops.
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <fstream>
#include <string>
#include <utility>

#include "core/runtime/cpu/thread_team.h"
#include "core/runtime/parallel.h"
#include "core/tensor/error.h"
#include "core/tensor/memory.h"
#include "core/tensor/tensor.h"
#include "tests/input_error.h"

namespace saccade {
namespace {

TEST(Limits, ShapesThatNoTensorCanHave) {
  const int64_t half = int64_t{1} << 32;
  for (const Shape& shape :
       {Shape{half, half}, Shape{half, half, 0, half}, Shape{INT64_MAX}, Shape{INT64_MAX, 2},
        Shape{1 << 30, 1 << 30, 1 << 30}, Shape{-1}, Shape{-1, -1}, Shape{0, -5}})
    EXPECT_THROW(Tensor::empty(shape), Error) << shape.to_string();
  EXPECT_EQ(Tensor::empty({0, half}).numel(), 0);
}

TEST(Limits, MoreMemoryThanThereIsIsRefusedBeforeItIsTaken) {
  const int64_t available = available_memory();
  ASSERT_GT(available, 0);
  for (int64_t bytes : {int64_t{1} << 55, std::min(available, int64_t{1} << 54) + (int64_t{2} << 30)}) {
    try {
      Tensor::empty({bytes}, DType::kU8);
      FAIL() << bytes;
    } catch (const OutOfMemory& e) {
      EXPECT_NE(std::string(e.what()).find("out of CPU memory: asked for"), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(Tensor::zeros({1000}).numel(), 1000);  // the allocator continues
}

// The limits of ulimit -d and ulimit -v, below which oneDNN's code generator would crash.
TEST(Limits, WhatIsLeftIsWhatTheLimitsOfTheProcessLeave) {
  constexpr int64_t kMost = int64_t{64} << 20;
  for (const auto& [resource, name] : {std::pair{RLIMIT_DATA, "VmData:"}, std::pair{RLIMIT_AS, "VmSize:"}}) {
    int64_t used = 0;  // KB
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == name) status >> used;
    ASSERT_GT(used, 0) << name;
    rlimit before{};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    const rlimit low{static_cast<rlim_t>(used * 1024 + kMost), before.rlim_max};
    ASSERT_EQ(setrlimit(resource, &low), 0);
    const int64_t left = available_memory();
    setrlimit(resource, &before);
    EXPECT_GT(left, kMost / 2) << name;
    EXPECT_LE(left, kMost + (1 << 20)) << name;
  }
}

TEST(Limits, AZeroByteDoesNotEndAMessage) {
  using namespace std::string_literals;
  EXPECT_STREQ(InputError("a.json: \0\0 is no name\0"s).what(), R"(a.json: \x00\x00 is no name\x00)");
  EXPECT_EQ(input_error([] { fail_input("{}: wrong", "a\0b"s); }), R"(a\x00b: wrong)");
}

TEST(Limits, ParallelLoopsThrowWhatTheirBodiesThrow) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(4);
  for (int64_t bad : {0, 1, 3}) {
    auto loop = [&] {
      parallel_for(4, 1, [&](int64_t begin, int64_t end) {
        if (begin <= bad && bad < end) throw std::bad_alloc();
      });
    };
    EXPECT_THROW(loop(), std::bad_alloc);
  }
  omp_set_num_threads(before);
}

TEST(Limits, TooManyThreadsAreRefused) {
  const int before = omp_get_max_threads();
  EXPECT_EQ(input_error([] { start_threads(); }), "no error");
  omp_set_num_threads(100000);
  EXPECT_EQ(
      input_error([] { start_threads(); }),
      fmt::format("OMP_NUM_THREADS: 100000 threads, expected at most {} on this machine", max_threads()));
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace saccade
