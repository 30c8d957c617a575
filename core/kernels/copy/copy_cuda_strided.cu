// Copies that permute axes: 32 x 32 tiles pass through shared memory so that both sides use whole sectors.
// The gradient of a slice is one pass over the whole tensor, zeros included.
#include <algorithm>

#include "core/kernels/copy/convert.h"
#include "core/kernels/copy/copy.h"
#include "core/kernels/copy/transpose.h"
#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kTile = Transpose::kTile, kTileLevels = 8;  // threads of a block: 32 columns, 8 rows

template <class To, class From>
__global__ void __launch_bounds__(kTile* kTileLevels)
    copy_tiles(Transpose t, uint32_t row_tiles, uint32_t col_tiles, const From* source, To* target) {
  SACCADE_SHARED(From, tile, kTile * (kTile + 1));  // the extra column avoids bank conflicts
  int lane = static_cast<int>(threadIdx.x) % kTile, level = static_cast<int>(threadIdx.x) / kTile;
  uint32_t rest = blockIdx.x / col_tiles;
  int64_t c0 = static_cast<int64_t>(blockIdx.x % col_tiles) * kTile;
  int64_t r0 = static_cast<int64_t>(rest % row_tiles) * kTile;
  target += t.batch.row_offset(0, rest / row_tiles);
  source += t.batch.row_offset(1, rest / row_tiles);
  for (int c = level; c < kTile; c += kTileLevels)
    if (c0 + c < t.cols && r0 + lane < t.rows)
      tile[c * (kTile + 1) + lane] = source[r0 + lane + (c0 + c) * t.source_step];
  __syncthreads();
  for (int r = level; r < kTile; r += kTileLevels)
    if (c0 + lane < t.cols && r0 + r < t.rows)
      target[(r0 + r) * t.target_step + c0 + lane] = convert<To>(tile[lane * (kTile + 1) + r]);
}

void copy_cuda(const Tensor& x, Tensor& y) {
  Transpose t = *Transpose::find(loop_over(y, x));
  dispatch_one_pass(x.dtype(), y.dtype(), [&]<class To, class From>() {
    launch("copy_tiles", &copy_tiles<To, From>, {t.tiles(), kTile * kTileLevels}, t,
           static_cast<uint32_t>(t.row_tiles()), static_cast<uint32_t>(t.col_tiles()),
           static_cast<const From*>(x.raw()), static_cast<To*>(y.raw()));
  });
}
// The generic kernel moves packs of everything else.
bool transposes(const Tensor& x, const Tensor& y) {
  if (x.shape() != y.shape() || x.numel() == 0 || !copies_in_one_pass(x.dtype(), y.dtype())) return false;
  auto t = Transpose::find(loop_over(y, x));
  return t && t->tiles() <= INT32_MAX;
}

// A row of y has `length` units, of which `width` from `begin` on are a row of x; one thread per unit.
template <class Unit>
__global__ void __launch_bounds__(kMapThreads)
    zeros_around(const Unit* x, Unit* y, uint32_t length, uint32_t begin, uint32_t width, uint32_t count) {
  uint32_t i = blockIdx.x * kMapThreads + threadIdx.x;
  if (i >= count) return;
  uint32_t row = i / length, k = i - row * length - begin;  // wraps around before `begin`
  Unit value{};
  if (k < width) value = x[static_cast<int64_t>(row) * width + k];
  y[i] = value;
}

void copy_into_zeros_cuda(const Tensor& part, int axis, int64_t begin, Tensor& y) {
  if (y.numel() == 0) return;
  if (part.numel() == 0) return fill(y, 0);
  Tensor x = part.contiguous();
  auto step = static_cast<uint32_t>(size_of(y.dtype()));  // bytes of a step along the axis
  for (int a = y.shape().axis(axis) + 1; a < y.rank(); ++a) step *= static_cast<uint32_t>(y.dim(a));
  auto length = static_cast<uint32_t>(y.dim(axis)) * step, first = static_cast<uint32_t>(begin) * step,
       width = static_cast<uint32_t>(x.dim(axis)) * step;
  with_unit(
      {length, first, width, reinterpret_cast<uintptr_t>(x.raw()), reinterpret_cast<uintptr_t>(y.raw())},
      [&]<class Unit>() {
        constexpr uint32_t kSize = sizeof(Unit);
        auto count = static_cast<uint32_t>(y.bytes() / kSize);
        launch("zeros_around", &zeros_around<Unit>, {ceil_div(count, kMapThreads), kMapThreads},
               static_cast<const Unit*>(x.raw()), static_cast<Unit*>(y.raw()), length / kSize, first / kSize,
               width / kSize, count);
      });
}

// Rows of y consist of rows of the sources, one after the other; one thread per unit.
constexpr size_t kMaxJoined = 16;
template <class Unit>
struct Joined {
  const Unit* x[kMaxJoined];
  uint32_t end[kMaxJoined];  // within a row of y, in units
};
template <class Unit>
__global__ void __launch_bounds__(kMapThreads)
    join_rows(Joined<Unit> sources, Unit* y, uint32_t length, uint32_t count) {
  uint32_t i = blockIdx.x * kMapThreads + threadIdx.x;
  if (i >= count) return;
  uint32_t row = i / length, k = i - row * length, begin = 0;
  Unit value{};
#pragma unroll
  for (size_t s = 0; s < kMaxJoined; ++s) {
    const uint32_t end = sources.end[s];
    if (k >= begin && k < end) value = sources.x[s][static_cast<int64_t>(row) * (end - begin) + k - begin];
    begin = end;
  }
  y[i] = value;
}

void join_cuda(std::span<const Tensor> xs, int axis, Tensor& y) {
  if (y.numel() == 0) return;
  axis = y.shape().axis(axis);
  auto step = static_cast<uint32_t>(size_of(y.dtype()));  // bytes of a step along the axis
  for (int a = axis + 1; a < y.rank(); ++a) step *= static_cast<uint32_t>(y.dim(a));
  uint64_t bits = reinterpret_cast<uintptr_t>(y.raw());
  for (const Tensor& x : xs) {
    bits |= static_cast<uint64_t>(x.dim(axis)) * step;
    if (x.numel() > 0) bits |= reinterpret_cast<uintptr_t>(x.raw());
  }
  with_unit({bits}, [&]<class Unit>() {
    constexpr uint32_t kSize = sizeof(Unit);
    Joined<Unit> sources{};
    uint32_t end = 0;
    for (size_t s = 0; s < kMaxJoined; ++s) {
      if (s < xs.size()) {
        sources.x[s] = static_cast<const Unit*>(xs[s].raw());
        end += static_cast<uint32_t>(xs[s].dim(axis)) * step / kSize;
      }
      sources.end[s] = end;
    }
    const auto count = static_cast<uint32_t>(y.bytes() / kSize);
    launch("join_rows", &join_rows<Unit>, {ceil_div(count, kMapThreads), kMapThreads}, sources,
           static_cast<Unit*>(y.raw()), end, count);
  });
}

bool joins(const std::span<const Tensor>& xs, const int&, const Tensor& y) {
  return xs.size() <= kMaxJoined && y.bytes() <= INT32_MAX &&
         std::ranges::all_of(xs, [](const Tensor& x) { return x.is_contiguous(); });
}

bool counts_bytes(const Tensor&, const int&, const int64_t&, const Tensor& y) {
  return y.bytes() <= INT32_MAX;
}

SACCADE_REGISTER_TUNED_KERNEL(copy, Device::kCuda, &copy_cuda, &transposes);
SACCADE_REGISTER_TUNED_KERNEL(join, Device::kCuda, &join_cuda, &joins);
SACCADE_REGISTER_TUNED_KERNEL(copy_into_zeros, Device::kCuda, &copy_into_zeros_cuda, &counts_bytes);

}  // namespace
}  // namespace saccade::kernels
