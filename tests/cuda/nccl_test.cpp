// Two processes with an emulated GPU each: tests sums over NCCL, and what the stand-in for NCCL reports about
// wrong calls.
#include "core/runtime/cuda/libraries/nccl_api.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>

#include "core/distributed/backends.h"
#include "core/distributed/rank_channel.h"
#include "core/runtime/cuda/api.h"
#include "core/tensor/error.h"
#include "core/tensor/execution.h"

namespace saccade {
namespace {

// Returns the results of `work` on rank 0 and on rank 1, each in its own process.
std::array<std::string, 2> on_two_ranks(const std::function<std::string(int)>& work) {
  std::array<std::string, 2> out;
  std::array<std::array<int, 2>, 2> pipes{};
  std::array<pid_t, 2> children{};
  for (int rank = 0; rank < 2; ++rank) {
    auto& ends = pipes[static_cast<size_t>(rank)];
    EXPECT_EQ(pipe(ends.data()), 0);
    children[static_cast<size_t>(rank)] = fork();
    if (children[static_cast<size_t>(rank)] != 0) {
      close(ends[1]);
      continue;
    }
    setenv("SACCADE_EMULATOR_GPUS", "2", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    if (!std::getenv("CUDA_VISIBLE_DEVICES")) setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
    std::string said;
    try {
      said = work(rank);
    } catch (const Error& error) {
      said = error.what();
    }
    [[maybe_unused]] const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(0);
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    char buffer[256];
    for (ssize_t n; (n = read(pipes[rank][0], buffer, sizeof buffer)) > 0;)
      out[rank].append(buffer, static_cast<size_t>(n));
    close(pipes[rank][0]);
    waitpid(children[rank], nullptr, 0);
  }
  return out;
}

Ranks two_ranks(int rank, int port) {
  Ranks ranks;
  ranks.rank = ranks.local_rank = rank;
  ranks.size = ranks.local_size = 2;
  ranks.source = "the test";
  ranks.host = "127.0.0.1";
  ranks.port = port;
  return ranks;
}

int free_port() { return RankListener(0, true).port(); }

TEST(Nccl, SumsAndGathersOverRanks) {
  const int port = free_port();
  const auto said = on_two_ranks([&](int rank) {
    auto group = open_nccl_group(two_ranks(rank, port));
    std::string all;
    for (const bool deterministic : {true, false}) {
      const ExecutionScope scope;
      execution().deterministic = deterministic;
      Tensor block = Tensor::full({128}, rank + 1.0, DType::kF32, Device::kCuda);
      Tensor longer = Tensor::full({256}, rank + 2.0, DType::kF32, Device::kCuda);
      group->start_sum(block);
      group->start_sum(longer);
      Tensor parts = Tensor::empty({2, 3}, DType::kF64, Device::kCuda);
      group->gather(Tensor::full({3}, rank + 0.5, DType::kF64, Device::kCuda), parts);
      group->wait();
      const auto sums = block.to_vector<float>(), others = longer.to_vector<float>();
      const auto gathered = parts.to_vector<double>();
      bool right = gathered[0] == 0.5 && gathered[2] == 0.5 && gathered[3] == 1.5 && gathered[5] == 1.5;
      for (const float x : sums) right &= x == 3;
      for (const float x : others) right &= x == 5;
      group->take_times();
      all += right ? "right " : "wrong ";
    }
    all += group->take_times().busy_ms > 0 ? "timed " : "";
    group->finish();
    group.reset();
    return all + emulator::take_fault();
  });
  EXPECT_EQ(said[0], "right right timed ");
  EXPECT_EQ(said[1], said[0]);
}

TEST(Nccl, RefusesTwoProcessesOnOneGpu) {
  const int port = free_port();
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  const auto said = on_two_ranks([&](int rank) {
    open_nccl_group(two_ranks(rank, port));
    return std::string();
  });
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(said[0].find("rank 0 and rank 1 have the same GPU (0000:01:00.0)"), 0U) << said[0];
  EXPECT_EQ(said[1], "");  // rank 0 speaks
}

TEST(Nccl, ReportsWrongUse) {
  struct Place {
    ncclComm_t comm;
    cudaStream_t stream, other;
    float *a, *b;  // of 8 elements; those of a are written
    int rank;
  };
  struct Case {
    const char* report;
    std::function<void(const Place&)> call;
  };
  const Case cases[] = {
      {"outside of a group",
       [](const Place& p) { ncclSend(p.a, 8, ncclFloat32, 1 - p.rank, p.comm, p.stream); }},
      {"the end of a group that nobody began", [](const Place&) { ncclGroupEnd(); }},
      {"no communicator", [](const Place& p) { ncclAllGather(p.a, p.b, 4, ncclFloat32, nullptr, p.stream); }},
      {"gives 4 elements",
       [](const Place& p) {
         ncclGroupStart();
         ncclSend(p.a, 4, ncclFloat32, 1 - p.rank, p.comm, p.stream);
         ncclRecv(p.b, 8, ncclFloat32, 1 - p.rank, p.comm, p.stream);
         ncclGroupEnd();
       }},
      {"receives into what it sends",
       [](const Place& p) {
         ncclGroupStart();
         ncclSend(p.a, 4, ncclFloat32, 1 - p.rank, p.comm, p.stream);
         ncclRecv(p.a + 3, 4, ncclFloat32, 1 - p.rank, p.comm, p.stream);
         ncclGroupEnd();
       }},
      {"not from the rank's own place",
       [](const Place& p) { ncclAllGather(p.a + 2, p.a, 4, ncclFloat32, p.comm, p.stream); }},
      {"outside an allocation",
       [](const Place& p) { ncclAllGather(p.a, p.b, 8, ncclFloat32, p.comm, p.stream); }},
#ifdef SACCADE_EMULATOR_HOOKS
      {"never written",
       [](const Place& p) { ncclAllReduce(p.b, p.b, 8, ncclFloat32, ncclSum, p.comm, p.stream); }},
#endif
      {"does not wait for one of another stream",
       [](const Place& p) { ncclAllReduce(p.a, p.a, 8, ncclFloat32, ncclSum, p.comm, p.other); }},
      {"", [](const Place& p) { ncclAllReduce(p.a, p.a, 8, ncclFloat32, ncclSum, p.comm, p.stream); }},
  };
  for (const Case& c : cases) {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    const auto said = on_two_ranks([&](int rank) {
      Place p{};
      p.rank = rank;
      EXPECT_EQ(ncclCommInitRank(&p.comm, 2, id, rank), ncclSuccess);
      cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking);
      cudaStreamCreateWithFlags(&p.other, cudaStreamNonBlocking);
      void *a = nullptr, *b = nullptr;
      cudaMallocAsync(&a, 32, p.stream);
      cudaMallocAsync(&b, 32, p.stream);
      cudaMemsetAsync(a, 0, 32, p.stream);
      p.a = static_cast<float*>(a);
      p.b = static_cast<float*>(b);
      c.call(p);
      return emulator::take_fault();
    });
    // The other rank may only see that this one has given up.
    const std::string report = said[0].empty() ? said[1] : said[0];
    EXPECT_EQ(report.empty(), *c.report == '\0') << report << ", expected: " << c.report;
    EXPECT_NE(report.find(c.report), std::string::npos) << report << ", expected: " << c.report;
  }
}

}  // namespace
}  // namespace saccade
