// The emulator finds what it promises to find: each test plants one fault in a kernel and reads the report.
// Built in emulated builds only.
#include <gtest/gtest.h>

#include "core/kernels/common/mma_cuda.h"
#include "core/runtime/cuda/block.h"
#include "core/runtime/cuda/tickets.h"
#include "tests/cuda/buffer.h"

namespace saccade {
namespace {

constexpr int kThreads = 64;
constexpr int kDynamicBytes = 100;  // of shared memory, in all planted faults

// Returns the report of a launch that must fail.
template <class... P, class... A>
std::string fault_of(void (*kernel)(P...), A... arguments) {
  try {
    cuda::launch("planted", kernel, {2, kThreads, kDynamicBytes}, arguments...);
  } catch (const Error&) {
  }
  return emulator::take_fault();
}

// Expects an access outside what was allocated: the hooks report it, AddressSanitizer ends the program.
template <class... P, class... A>
void expect_outside([[maybe_unused]] const std::string& report, void (*kernel)(P...), A... arguments) {
#ifdef SACCADE_EMULATOR_HOOKS
  expect_report(fault_of(kernel, arguments...), report);
#else
  EXPECT_DEATH(fault_of(kernel, arguments...), "AddressSanitizer: use-after-poison");
#endif
}

__global__ void block_sum(const float* x, float* y, int n) {
  SACCADE_SHARED(float, part, kThreads);
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  part[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

__global__ void warp_sum(const float* x, float* y) {
  float v = x[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, step);
  unsigned odd = __ballot_sync(0xFFFFFFFFu, threadIdx.x % 2);
  if (blockIdx.x == 0) y[threadIdx.x] = odd == 0xAAAAAAAAu ? v : -1;
}

TEST(Emulator, RunsRightKernels) {
  Buffer x(100), y(2), w(kThreads);
  std::vector<float> values(100);
  for (int i = 0; i < 100; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  ASSERT_EQ(cudaMemcpyAsync(x.data, values.data(), 400, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  for (uint64_t seed : {1, 2, 3}) {
    emulator::set_seed(seed);
    cuda::launch("block_sum", &block_sum, {2, kThreads}, x.get(), y.get(), 100);
    EXPECT_EQ(y.read(), (std::vector<float>{2016, 2934}));
    cuda::launch("warp_sum", &warp_sum, {2, kThreads}, x.get(), w.get());
    EXPECT_EQ(w.read()[0], 496);
    EXPECT_EQ(w.read()[63], 1520);
  }
  EXPECT_EQ(emulator::take_fault(), "");
}

__global__ void copy(const float* x, float* y, int n) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i];
}

#ifdef SACCADE_EMULATOR_HOOKS
// Without the barrier a thread reads what another may not have written yet.
__global__ void forgotten_barrier(const float* x, float* y) {
  SACCADE_SHARED(float, part, kThreads);
  part[threadIdx.x] = x[threadIdx.x];
  if (blockIdx.x == 0) y[threadIdx.x] = part[(threadIdx.x + 33) % kThreads];
}

TEST(Emulator, FindsAForgottenBarrier) {
  Buffer x(kThreads), y(kThreads);
  std::string report = fault_of(&forgotten_barrier, x.get(), y.get());
  // Depending on which thread is first, the place is not written yet, or written by another without order.
  EXPECT_TRUE(report.find("race") != std::string::npos || report.find("never written") != std::string::npos)
      << report;
}

// A shuffle brings the lanes together but does not order what they do to memory.
__global__ void shuffle_for_barrier(float* y, bool barrier) {
  SACCADE_SHARED(float, part, kThreads);
  unsigned first = threadIdx.x / 32 * 32;
  part[threadIdx.x] = 1;
  float sum = __shfl_xor_sync(0xFFFFFFFFu, 1.0f, 1);
  if (barrier) __syncwarp();
  sum += part[first + (threadIdx.x + 1) % 32];
  if (blockIdx.x == 0) y[threadIdx.x] = sum;
}

TEST(Emulator, FindsAShuffleTakenForABarrier) {
  Buffer y(kThreads);
  EXPECT_EQ(fault_of(&shuffle_for_barrier, y.get(), true), "");
  expect_report(fault_of(&shuffle_for_barrier, y.get(), false), "race: a");
}

// All blocks add to one place without an atomic.
__global__ void racing_sum(float* y) { y[0] += 1; }

TEST(Emulator, FindsARace) {
  Buffer y(1);
  expect_report(fault_of(&racing_sum, y.get()), "race: a");
}

__global__ void atomic_sum(float* y) { atomicAdd(y, 1.0f); }

TEST(Emulator, AtomicsDoNotRace) {
  Buffer y(1);
  EXPECT_EQ(fault_of(&atomic_sum, y.get()), "");
  EXPECT_EQ(y.read(), std::vector<float>{2 * kThreads});
}

// The last block to arrive adds up the parts of all blocks, without a fence on one of the sides, or without
// counting itself.
enum class Forgotten { kNothing, kFenceBefore, kFenceAfter, kCounter };
__global__ void sum_of_blocks(float* parts, unsigned* arrived, float* y, Forgotten forgotten) {
  SACCADE_SHARED(unsigned, before, 1);
  parts[blockIdx.x * kThreads + threadIdx.x] = 1;
  if (forgotten != Forgotten::kFenceBefore) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    before[0] = forgotten == Forgotten::kCounter ? 1 : atomicAdd(arrived, 1u);
    if (forgotten != Forgotten::kFenceAfter) __threadfence();
  }
  __syncthreads();
  if (before[0] == 0 || threadIdx.x > 0) return;
  float sum = 0;
  for (int i = 0; i < 2 * kThreads; ++i)
    if (forgotten != Forgotten::kCounter || i / kThreads != static_cast<int>(blockIdx.x)) sum += parts[i];
  if (blockIdx.x == 0 || forgotten != Forgotten::kCounter) y[0] = sum;
}

TEST(Emulator, BlocksAreOrderedByFencesAroundAnAtomic) {
  Buffer parts(2 * kThreads), y(1);
  auto run = [&](Forgotten forgotten) {
    Buffer counter(1);
    return fault_of(&sum_of_blocks, parts.get(), reinterpret_cast<unsigned*>(counter.get()), y.get(),
                    forgotten);
  };
  EXPECT_EQ(run(Forgotten::kNothing), "");
  EXPECT_EQ(y.read(), std::vector<float>{2 * kThreads});
  for (Forgotten forgotten : {Forgotten::kFenceBefore, Forgotten::kFenceAfter, Forgotten::kCounter})
    expect_report(run(forgotten), "race: a");
}

TEST(Emulator, FindsAReadOfWhatNobodyWrote) {
  Buffer x(20, false), y(20);
  expect_report(fault_of(&copy, x.get(), y.get(), 20), "never written");
}

#endif

TEST(EmulatorDeathTest, FindsAWritePastTheEnd) {
  Buffer x(20), y(19);
  expect_outside("write of 4 bytes at byte 76 of an allocation of 76, outside", &copy, x.get(), y.get(), 20);
}

TEST(EmulatorDeathTest, FindsAReadPastTheEnd) {
  Buffer x(19), y(20);
  expect_outside("read of 4 bytes at byte 76 of an allocation of 76, outside", &copy, x.get(), y.get(), 20);
}

TEST(EmulatorDeathTest, FindsTheUseOfFreedMemory) {
  float* freed = nullptr;
  {
    Buffer x(20);
    freed = x.get();
  }
  Buffer y(21);
  expect_outside("outside an allocation", &copy, freed, y.get(), 20);
}

__global__ void write_byte(char* p, int at) {
  if (blockIdx.x == 0 && threadIdx.x == 0) p[at] = 1;
}

TEST(EmulatorDeathTest, BoundsAreThoseOfBytes) {
  for (int bytes : {1, 77, 80, 255, 256}) {
    void* p = nullptr;
    ASSERT_EQ(cudaMallocAsync(&p, static_cast<size_t>(bytes), cuda::stream()), cudaSuccess);
    auto* x = static_cast<char*>(p);
    EXPECT_EQ(fault_of(&write_byte, x, bytes - 1), "");
    expect_outside(fmt::format("write of 1 bytes at byte {0} of an allocation of {0}, outside", bytes),
                   &write_byte, x, bytes);
    EXPECT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
  }
}

__global__ void write_shared(int at, int at_dynamic) {
  SACCADE_DYNAMIC_SHARED(char, dynamic);
  SACCADE_SHARED(char, array, 77);
  SACCADE_SHARED(char, next, 8);
  if (threadIdx.x > 0) return;
  array[at] = 1;
  next[7] = 1;
  dynamic[at_dynamic] = 1;
}

TEST(EmulatorDeathTest, SharedArraysHaveBoundsOfBytes) {
  EXPECT_EQ(fault_of(&write_shared, 76, kDynamicBytes - 1), "");
  expect_outside("outside an allocation", &write_shared, 77, kDynamicBytes - 1);
  expect_outside("outside an allocation", &write_shared, 76, kDynamicBytes);
}

// Packs that begin `shift` elements after a multiple of their size.
__global__ void move_packs(const float* x, float* y, int load_shift, int store_shift) {
  if (blockIdx.x > 0 || threadIdx.x > 0) return;
  cuda::store_pack(y + store_shift, cuda::load_pack<4>(x + load_shift));
}
__global__ void load_shared_pack(float* y, int shift) {
  SACCADE_SHARED(bf16, array, 16);
  if (blockIdx.x > 0 || threadIdx.x > 0) return;
  for (int i = 0; i < 16; ++i) array[i] = bf16(1.0f);
  y[0] = float(cuda::load_pack<2>(array + shift).x[1]);
}
__global__ void load_double(const float* x, float* y, int shift) {
  if (blockIdx.x == 0 && threadIdx.x == 0) y[0] = float(*reinterpret_cast<const double*>(x + shift));
}

TEST(Emulator, FindsAMisalignedAccess) {
  Buffer x(16), y(16);
  EXPECT_EQ(fault_of(&move_packs, x.get(), y.get(), 4, 8), "");
  expect_report(fault_of(&move_packs, x.get(), y.get(), 2, 0), "misaligned: 16 bytes");
  expect_report(fault_of(&move_packs, x.get(), y.get(), 0, 3), "misaligned: 16 bytes");
  EXPECT_EQ(fault_of(&load_shared_pack, y.get(), 6), "");
  expect_report(fault_of(&load_shared_pack, y.get(), 5), "misaligned: 4 bytes");
#ifdef SACCADE_EMULATOR_HOOKS
  EXPECT_EQ(fault_of(&load_double, x.get(), y.get(), 2), "");
  expect_report(fault_of(&load_double, x.get(), y.get(), 3), "misaligned: 8 bytes");
#endif
}

__global__ void divergent_barrier() {
  if (threadIdx.x < 40) __syncthreads();
}

TEST(Emulator, FindsABarrierThatNotAllReach) {
  std::string report = fault_of(&divergent_barrier);
  expect_report(report, "a barrier that not all threads reach");
  expect_report(report, "40 of 64 threads wait at __syncthreads");
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(Emulator, FindsThreadsAtDifferentBarriers) {
  expect_report(fault_of(&two_barriers), "__syncthreads at ");
}

__global__ void half_a_shuffle(float* y) {
  if (threadIdx.x % 2 == 0) y[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, 1.0f, 2);
}

TEST(Emulator, FindsAShuffleThatNotAllReach) {
  Buffer y(kThreads);
  expect_report(fault_of(&half_a_shuffle, y.get()), "mask 0xffffffff");
}

__global__ void static_shared(float* y) {
  SACCADE_SHARED(float, array, 1024);
  array[threadIdx.x] = 1;
  y[threadIdx.x] = array[threadIdx.x];
}

TEST(Emulator, RefusesALaunchThatAGpuRefuses) {
  struct Case {
    cuda::LaunchExtent grid, block;
  };
  for (auto [grid, block] : {Case{1, 2048}, Case{1, {1, 1, 65}}, Case{0x80000000, 1}, Case{{1, 65536}, 1},
                             Case{{1, 1, 65536}, 1}, Case{0, 1}}) {
    try {
      cuda::launch("refused", &divergent_barrier, {grid, block});
      ADD_FAILURE() << grid.x << ' ' << grid.y << ' ' << grid.z << ' ' << block.x << ' ' << block.z;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("refused: a launch of"), std::string::npos);
    }
    emulator::take_fault();
  }
}

// A launch gets more than 48 KiB only where it asks for more; static arrays count.
TEST(Emulator, SharedMemoryIsLimitedAsOnAGpu) {
  Buffer y(1);
  for (int kib : {44, 45, 48, 49, 95, 96}) {
    bool fits = kib <= 44 || kib == 49 || kib == 95;
    try {
      cuda::launch("static_shared", &static_shared, {1, 1, size_t(kib) << 10}, y.get());
      EXPECT_TRUE(fits) << kib;
    } catch (const Error& e) {
      EXPECT_FALSE(fits) << kib;
    }
    EXPECT_EQ(emulator::take_fault().find("bytes of shared memory") != std::string::npos, !fits) << kib;
  }
}

// One warp multiplies A [16, 16] by B [16, 8], the registers filled by the tables of the PTX ISA.
__global__ void multiply_bf16(const float* a, const float* b, float* d) {
  int lane = static_cast<int>(threadIdx.x), group = lane >> 2, in_group = lane % 4;
  uint32_t x[4], y[2];
  for (int i = 0; i < 8; i += 2) {
    int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8, column = in_group * 2 + (i >= 4 ? 8 : 0);
    x[i / 2] = cuda::pack_bf16(a[row * 16 + column], a[row * 16 + column + 1]);
  }
  for (int i = 0; i < 4; i += 2) {
    int row = in_group * 2 + (i >= 2 ? 8 : 0);
    y[i / 2] = cuda::pack_bf16(b[row * 8 + group], b[(row + 1) * 8 + group]);
  }
  float sum[4] = {1, 1, 1, 1};
  cuda::mma_bf16(sum, x, y[0], y[1]);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = sum[i];
}

// The same with 8 columns of A and 8 rows of B.
__global__ void multiply_tf32(const float* a, const float* b, float* d) {
  int lane = static_cast<int>(threadIdx.x), group = lane >> 2, in_group = lane % 4;
  uint32_t x[4], y[2];
  for (int i = 0; i < 4; ++i) {
    int row = i == 0 || i == 2 ? group : group + 8, column = i < 2 ? in_group : in_group + 4;
    x[i] = std::bit_cast<uint32_t>(cuda::round_tf32(a[row * 16 + column]));
  }
  for (int i = 0; i < 2; ++i)
    y[i] = std::bit_cast<uint32_t>(cuda::round_tf32(b[(in_group + 4 * i) * 8 + group]));
  float sum[4] = {1, 1, 1, 1};
  cuda::mma_tf32(sum, x, y[0], y[1]);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = sum[i];
}

TEST(Emulator, MultipliesMatrices) {
  std::vector<float> a(16 * 16), b(16 * 8);  // small whole numbers: exact in every format
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 23) - 11;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 19) - 9;
  Buffer x(16 * 16), y(16 * 8), d(16 * 8);
  ASSERT_EQ(cudaMemcpyAsync(x.data, a.data(), 1024, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(y.data, b.data(), 512, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  for (size_t depth : {16, 8}) {
    std::vector<float> expected(16 * 8, 1.0f);
    for (size_t row = 0; row < 16; ++row)
      for (size_t column = 0; column < 8; ++column)
        for (size_t k = 0; k < depth; ++k) expected[row * 8 + column] += a[row * 16 + k] * b[k * 8 + column];
    if (depth == 16) {
      cuda::launch("multiply_bf16", &multiply_bf16, {1, 32}, x.get(), y.get(), d.get());
    } else {
      cuda::launch("multiply_tf32", &multiply_tf32, {1, 32}, x.get(), y.get(), d.get());
    }
    EXPECT_EQ(d.read(), expected) << "depth " << depth;
  }
}

// Each lane writes its values of four matrices that lie behind each other as [32, 8].
__global__ void read_matrices(float* plain, float* transposed, int shift) {
  SACCADE_SHARED(bf16, tile, 32 * 8 + 8);
  int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 32 * 8 + 8; i += 32) tile[i] = bf16(static_cast<float>(i));
  __syncthreads();
  uint32_t x[4], y[4];
  cuda::load_matrices<false>(x, tile + lane * 8 + shift);
  cuda::load_matrices<true>(y, tile + lane * 8 + shift);
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) {
      auto number = [&](uint32_t bits) {
        return std::bit_cast<float>(half ? bits & 0xFFFF0000u : bits << 16);
      };
      plain[i * 64 + lane * 2 + half] = number(x[i]);
      transposed[i * 64 + lane * 2 + half] = number(y[i]);
    }
  }
}

TEST(Emulator, LoadsMatrices) {
  Buffer plain(256), transposed(256);
  cuda::launch("read_matrices", &read_matrices, {1, 32}, plain.get(), transposed.get(), 0);
  auto x = plain.read(), y = transposed.read();
  for (int i = 0; i < 256; ++i) {
    int matrix = i / 64, row = i / 8 % 8, column = i % 8;  // lane 4 row + column / 2 holds an element
    EXPECT_EQ(x[static_cast<size_t>(i)], i);
    EXPECT_EQ(y[static_cast<size_t>(i)], matrix * 64 + column * 8 + row);
  }
  EXPECT_THROW(cuda::launch("read_matrices", &read_matrices, {1, 32}, plain.get(), transposed.get(), 4),
               Error);
  expect_report(emulator::take_fault(), "not a multiple of 16");
}

TEST(EmulatorDeathTest, HostCodeCannotTouchDeviceMemory) {
  Buffer y(4);
  volatile float* p = y.get();
  EXPECT_DEATH(p[0] = 1, "");
}

}  // namespace
}  // namespace saccade
