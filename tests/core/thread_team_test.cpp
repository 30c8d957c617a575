// Tests the threads of parallel loops: every index runs once, barriers hold, loops can meet from anywhere.
#include "core/runtime/cpu/thread_team.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/runtime/cpu/processors.h"
#include "core/runtime/parallel.h"

namespace saccade {
namespace {

// Returns how often each of `size` places of a loop ran, or -1 where a place was told another size.
std::vector<int> places(int size) {
  std::vector<int> runs(static_cast<size_t>(size));
#pragma omp parallel num_threads(size)
  {
    auto i = static_cast<size_t>(omp_get_thread_num());
    runs[i] = omp_get_num_threads() == size && omp_in_parallel() == (size > 1) ? runs[i] + 1 : -1;
  }
  return runs;
}

TEST(ThreadTeam, RunsEveryPlaceOnce) {
  for (int repeat = 0; repeat < 200; ++repeat)
    for (int size : {1, 2, 5, 3}) EXPECT_EQ(places(size), std::vector<int>(static_cast<size_t>(size), 1));
  EXPECT_EQ(omp_get_num_threads(), 1);
  EXPECT_EQ(omp_get_thread_num(), 0);
}

// Otherwise oneDNN's loops would run on libgomp's threads.
TEST(ThreadTeam, IsWhatLibrariesFind) {
  for (const char* name : {"GOMP_parallel", "GOMP_barrier", "omp_get_max_threads", "omp_get_thread_num"}) {
    Dl_info found{}, own{};
    ASSERT_NE(::dladdr(::dlsym(RTLD_DEFAULT, name), &found), 0) << name;
    ASSERT_NE(::dladdr(reinterpret_cast<void*>(&thread_count), &own), 0);
    EXPECT_EQ(found.dli_fbase, own.dli_fbase) << name << " of " << found.dli_fname;
  }
}

TEST(ThreadTeam, WakesThreadsThatSleep) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than they spin
    EXPECT_EQ(places(3), std::vector<int>(3, 1));
  }
}

TEST(ThreadTeam, NobodyPassesABarrierAlone) {
  constexpr int kSize = 4, kRounds = 500;
  std::atomic<int> arrived{0}, early{0};
#pragma omp parallel num_threads(kSize)
  for (int round = 1; round <= kRounds; ++round) {
    ++arrived;
#pragma omp barrier
    if (arrived < round * kSize) ++early;
#pragma omp barrier
  }
  EXPECT_EQ(arrived, kSize * kRounds);
  EXPECT_EQ(early, 0);
}

TEST(ThreadTeam, LoopInsideALoopRunsWhereItIsMet) {
  std::atomic<int> inner{0};
#pragma omp parallel num_threads(3)
  {
    const int mine = omp_get_thread_num();
#pragma omp parallel num_threads(3)
    if (omp_get_num_threads() == 1 && omp_get_thread_num() == 0 && omp_in_parallel()) ++inner;
    if (omp_get_thread_num() != mine || omp_get_num_threads() != 3) inner = -100;
  }
  EXPECT_EQ(inner, 3);
}

TEST(ThreadTeam, LoopsOfSeveralThreadsDoNotMeet) {
  std::atomic<int> wrong{0};
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&wrong] {
      for (int repeat = 0; repeat < 100; ++repeat) wrong += places(3) != std::vector<int>(3, 1);
    });
  }
  callers.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadTeam, AChildOfForkHasItsOwn) {
  EXPECT_EQ(places(3), std::vector<int>(3, 1));
  const pid_t child = fork();
  if (child == 0) _exit(places(3) == std::vector<int>(3, 1) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadTeam, CountIsOfLoopsToCome) {
  const int before = thread_count();
  set_thread_count(3);
  std::atomic<int> chunks{0};
  parallel_for(300, 1, [&](int64_t begin, int64_t end) { chunks += end - begin == 100 ? 1 : 100; });
  EXPECT_EQ(chunks, 3);
  set_thread_count(before);
}

TEST(ThreadTeam, PartsRunOnceEach) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    if (repeat % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<int> runs(5);
    run_parts(
        5,
        [](void* data, int i) {
          ++(*static_cast<std::vector<int>*>(data))[static_cast<size_t>(i)];
          if (!in_parallel() || omp_get_max_threads() != 1) std::abort();
        },
        &runs);
    EXPECT_EQ(runs, std::vector<int>(5, 1));
  }
  EXPECT_FALSE(in_parallel());
}

// A helper may come late, when the caller has done a loop's work, or another job's.
TEST(ThreadTeam, PartsAndLoopsTakeTurns) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    EXPECT_EQ(places(4), std::vector<int>(4, 1));
    std::atomic<int64_t> sum{0};
    parallel_for(8, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    EXPECT_EQ(sum, 28);
    IndependentLoops scope;
    EXPECT_EQ(places(3), std::vector<int>(3, 1));
  }
}

TEST(Processors, AreThoseOfTheAffinityMask) {
  EXPECT_GE(available_processors(), 1);
  int seen = 0;
  std::jthread([&seen] {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return;
    for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask) && found++ > 0) CPU_CLR(cpu, &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) == 0) seen = available_processors();
  }).join();
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace saccade
