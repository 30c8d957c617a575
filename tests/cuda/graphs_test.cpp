// Tests graphs on the emulated GPU: what may not be done while a stream is captured, and faults of a graph
// that is launched later.
#include <gtest/gtest.h>

#include <functional>

#include "core/runtime/cuda/api.h"
#include "tests/cuda/buffer.h"

namespace saccade {
namespace {

TEST(Graphs, WhatACaptureForbidsIsReported) {
  Buffer x(4);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  float host = 0;
  void* p = nullptr;
  const std::pair<const char*, std::function<cudaError_t(cudaStream_t)>> calls[] = {
      {"cudaStreamSynchronize", [](cudaStream_t s) { return cudaStreamSynchronize(s); }},
      {"cudaEventRecord", [&](cudaStream_t s) { return cudaEventRecord(event, s); }},
      {"cudaMallocAsync", [&](cudaStream_t s) { return cudaMallocAsync(&p, 4, s); }},
      {"cudaFreeAsync", [&](cudaStream_t s) { return cudaFreeAsync(x.data, s); }},
      {"cudaMemcpyAsync",
       [&](cudaStream_t s) { return cudaMemcpyAsync(&host, x.data, 4, cudaMemcpyDeviceToHost, s); }},
  };
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (const auto& [name, call] : calls) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_NE(call(stream), cudaSuccess);
    expect_report(emulator::take_fault(), std::string(name) + " while the stream is captured");
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// The source of a graph's copy is freed before the graph is launched.
TEST(Graphs, FindsMemoryThatIsGone) {
  Buffer y(4);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    Buffer x(4);
    cuda::synchronize();
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(y.data, x.data, 16, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  EXPECT_NE(cudaGraphLaunch(exec, stream), cudaSuccess);
  expect_report(emulator::take_fault(), "outside an allocation");
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);  // forgets what it touched
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace saccade
