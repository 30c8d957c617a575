// Copies between strided tensors: contiguous axes in packs; where the source runs fastest along another axis
// than the destination, 32 x 32 tiles pass through shared memory so that both sides use whole sectors. The
// gradient of a slice is one pass over the whole, zeros included.
#include "core/kernels/common/map_strided_cuda.h"
#include "core/kernels/copy/convert.h"
#include "core/kernels/copy/copy.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

constexpr int kTile = 32, kTileLevels = 8;  // threads of a block: 32 side by side, 8 rows

// y [.., rows, .., cols] = x: cols is contiguous in y (stride 1), rows in x. `batch` are the other axes.
struct Transpose {
  StridedLoop<2> batch;                          // 0: source, 1: destination; its last axis is 1
  int64_t rows, cols, source_step, target_step;  // steps along cols in the source, along rows in the target
  uint32_t row_tiles, col_tiles;
};

template <class To, class From>
__global__ void __launch_bounds__(kTile* kTileLevels)
    copy_tiles(Transpose t, const From* source, To* target) {
  SACCADE_SHARED(From, tile, kTile * (kTile + 1));  // the extra column keeps the banks apart
  int lane = static_cast<int>(threadIdx.x) % kTile, level = static_cast<int>(threadIdx.x) / kTile;
  uint32_t rest = blockIdx.x / t.col_tiles;
  int64_t c0 = static_cast<int64_t>(blockIdx.x % t.col_tiles) * kTile;
  int64_t r0 = static_cast<int64_t>(rest % t.row_tiles) * kTile;
  source += t.batch.row_offset(0, rest / t.row_tiles);
  target += t.batch.row_offset(1, rest / t.row_tiles);
  for (int c = level; c < kTile; c += kTileLevels)
    if (c0 + c < t.cols && r0 + lane < t.rows)
      tile[c * (kTile + 1) + lane] = source[r0 + lane + (c0 + c) * t.source_step];
  __syncthreads();
  for (int r = level; r < kTile; r += kTileLevels)
    if (c0 + lane < t.cols && r0 + r < t.rows)
      target[(r0 + r) * t.target_step + c0 + lane] = convert<To>(tile[lane * (kTile + 1) + r]);
}

// False when no such pair of axes is worth tiles.
template <class To, class From>
bool transpose(const StridedLoop<2>& loop, const From* source, To* target) {
  constexpr int64_t kMinSize = 8;
  int last = loop.rank - 1, fast = -1;
  for (int a = 0; a < last; ++a)
    if (loop.strides[0][a] == 1) fast = a;
  if (fast < 0 || loop.strides[1][last] != 1 || loop.sizes[fast] < kMinSize || loop.sizes[last] < kMinSize)
    return false;
  Transpose t{{}, loop.sizes[fast], loop.sizes[last], loop.strides[0][last], loop.strides[1][fast], 0, 0};
  int64_t row_tiles = ceil_div(t.rows, kTile), col_tiles = ceil_div(t.cols, kTile);
  for (int a = 0; a < last; ++a) {
    if (a == fast) continue;
    t.batch.sizes[t.batch.rank] = loop.sizes[a];
    for (int i = 0; i < 2; ++i) t.batch.strides[i][t.batch.rank] = loop.strides[i][a];
    ++t.batch.rank;
  }
  t.batch.sizes[t.batch.rank++] = 1;
  int64_t blocks = t.batch.rows() * row_tiles * col_tiles;
  if (blocks > INT32_MAX) return false;
  t.row_tiles = static_cast<uint32_t>(row_tiles), t.col_tiles = static_cast<uint32_t>(col_tiles);
  launch("copy_tiles", &copy_tiles<To, From>, dim3(static_cast<unsigned>(blocks)), dim3(kTile * kTileLevels),
         0, t, source, target);
  return true;
}

template <class To, class From>
void copy_strided(const Tensor& x, Tensor& y) {
  auto tiles = StridedLoop<2>::make(x.shape(), {&x.strides(), &y.strides()});
  if (transpose(tiles, x.data<From>(), y.data<To>())) return;
  auto loop = StridedLoop<2>::make(x.shape(), {&y.strides(), &x.strides()});
  launch_map_strided(loop, Convert<To, From>{}, y.data<To>(), x.data<From>());
}

void copy_cuda(const Tensor& x, Tensor& y) {
  dispatch_dtype<float, bf16>(x.dtype(), "copy", [&]<class From>() {
    dispatch_dtype<float, bf16>(y.dtype(), "copy", [&]<class To>() { copy_strided<To, From>(x, y); });
  });
}
// The contiguous case of the generic kernel moves packs.
bool copies_strided(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && takes_f32_or_bf16(x) && takes_f32_or_bf16(y) && map_fits(y) &&
         !(x.is_contiguous() && y.is_contiguous());
}

// A row of y is `length` units, of which `width` from `begin` on are a row of x; a thread a unit.
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
        launch("zeros_around", &zeros_around<Unit>, grid_of(count, kMapThreads), dim3(kMapThreads), 0,
               static_cast<const Unit*>(x.raw()), static_cast<Unit*>(y.raw()), length / kSize, first / kSize,
               width / kSize, count);
      });
}

bool counts_bytes(const Tensor&, const int&, const int64_t&, const Tensor& y) {
  return y.bytes() <= INT32_MAX;
}

SACCADE_REGISTER_TUNED_KERNEL(copy, Device::kCuda, &copy_cuda, &copies_strided);
SACCADE_REGISTER_TUNED_KERNEL(copy_into_zeros, Device::kCuda, &copy_into_zeros_cuda, &counts_bytes);

}  // namespace
}  // namespace saccade::kernels
