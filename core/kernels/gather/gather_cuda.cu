// Selection of rows by index: one thread per unit of up to 16 bytes. The gradient: one warp per row of dx,
// which searches the indices for its own row, so that nothing is zeroed, nothing is atomic and the order is
// that of k. If rows are many, all are zeroed instead, and the warp of a row's first pick searches.
#include "core/kernels/gather/gather.h"

#include "core/runtime/cuda/map.h"

namespace saccade::kernels {
namespace {

using namespace cuda;

template <class Unit>
__global__ void __launch_bounds__(kMapThreads)
    gather_units(const Unit* x, const int64_t* indices, Unit* y, int64_t rows, int64_t picks, uint32_t units,
                 int64_t count) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x;
  if (i >= count) return;
  int64_t row = i <= UINT32_MAX ? static_cast<uint32_t>(i) / units : i / units;
  int64_t sample = row <= UINT32_MAX && picks <= UINT32_MAX
                       ? static_cast<uint32_t>(row) / static_cast<uint32_t>(picks)
                       : row / picks;
  y[i] = x[(sample * rows + indices[row]) * units + (i - row * units)];
}

// Adds up the picks from `first` on whose index is `row`, in order; all lanes must call it.
template <class T, int kPack>
__device__ Pack<float, kPack> sum_of_picks(const T* dy, const int64_t* indices, int64_t first, int64_t picks,
                                           int64_t row, int64_t columns, bool mine) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Pack<float, kPack> sum{};
  for (first = first / kWarp * kWarp; first < picks; first += kWarp) {
    const int64_t k = first + lane;
    unsigned hits = __ballot_sync(kAllLanes, k < picks && indices[k] == row);
    for (; hits; hits &= hits - 1) {
      if (!mine) continue;
      auto g = load_pack<kPack>(dy + (first + __ffs(static_cast<int>(hits)) - 1) * columns);
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum.x[j] += static_cast<float>(g.x[j]);
    }
  }
  return sum;
}

// A warp owns kWarp packs of columns of a row of dx.
template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads)
    scatter_rows(const T* dy, const int64_t* indices, float* dx, int64_t rows, int64_t picks, int64_t columns,
                 int64_t chunks, int64_t count) {
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int64_t i = static_cast<int64_t>(blockIdx.x) * (kMapThreads / kWarp) + threadIdx.x / kWarp;
  if (i >= count) return;  // true for a whole warp
  int64_t c = (i % chunks * kWarp + lane) * kPack, row = i / chunks, sample = row / rows;
  const bool mine = c < columns;
  auto sum = sum_of_picks<T, kPack>(dy + sample * picks * columns + c, indices + sample * picks, 0, picks,
                                    row % rows, columns, mine);
  if (mine) store_wide<kPack>(dx + row * columns + c, sum);
}

// A warp owns kWarp packs of columns of a pick, and adds the later picks of its row to them. dx is zero.
template <class T, int kPack>
__global__ void __launch_bounds__(kMapThreads)
    scatter_picks(const T* dy, const int64_t* indices, float* dx, int64_t rows, int64_t picks,
                  int64_t columns, int64_t chunks, int64_t count) {
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int64_t i = static_cast<int64_t>(blockIdx.x) * (kMapThreads / kWarp) + threadIdx.x / kWarp;
  if (i >= count) return;  // true for a whole warp
  int64_t c = (i % chunks * kWarp + lane) * kPack, pick = i / chunks, sample = pick / picks;
  indices += sample * picks;
  pick -= sample * picks;
  const int64_t row = indices[pick];
  for (int64_t first = 0; first < pick; first += kWarp) {
    const int64_t k = first + lane;
    if (__any_sync(kAllLanes, k < pick && indices[k] == row)) return;  // the row belongs to another warp
  }
  const bool mine = c < columns;
  auto sum =
      sum_of_picks<T, kPack>(dy + sample * picks * columns + c, indices, pick, picks, row, columns, mine);
  if (mine) store_wide<kPack>(dx + (sample * rows + row) * columns + c, sum);
}

int64_t row_bytes(const Tensor& x) { return x.dim(2) * static_cast<int64_t>(size_of(x.dtype())); }

void gather_rows_cuda(const Tensor& x, const Tensor& indices, Tensor& y) {
  int64_t bytes = row_bytes(x);
  with_unit({static_cast<uintptr_t>(bytes), reinterpret_cast<uintptr_t>(x.raw()),
             reinterpret_cast<uintptr_t>(y.raw())},
            [&]<class Unit>() {
              int64_t units = bytes / static_cast<int64_t>(sizeof(Unit)), count = indices.numel() * units;
              launch("gather_units", &gather_units<Unit>, {ceil_div(count, kMapThreads), kMapThreads},
                     static_cast<const Unit*>(x.raw()), indices.data<int64_t>(), static_cast<Unit*>(y.raw()),
                     x.dim(1), indices.dim(1), static_cast<uint32_t>(units), count);
            });
}

void scatter_add_rows_cuda(const Tensor& dy, const Tensor& indices, Tensor& dx) {
  int64_t columns = dy.dim(2);
  dispatch_packs(dy.dtype(), rows_fit_packs(columns, dy, dx), [&]<class T, int kPack>() {
    const int64_t chunks = ceil_div(columns, kWarp * kPack);
    const bool few = dy.dim(1) < dx.dim(1);
    const int64_t count = dx.dim(0) * (few ? dy.dim(1) : dx.dim(1)) * chunks;
    if (few) check(cudaMemsetAsync(dx.raw(), 0, dx.bytes(), stream()), "cudaMemsetAsync");
    if (count == 0) return;
    launch(few ? "scatter_picks" : "scatter_rows", few ? &scatter_picks<T, kPack> : &scatter_rows<T, kPack>,
           {ceil_div(count, kMapThreads / kWarp), kMapThreads}, dy.data<T>(), indices.data<int64_t>(),
           dx.data<float>(), dx.dim(1), dy.dim(1), columns, chunks, count);
  });
}

bool gathers(const Tensor& x, const Tensor&, const Tensor& y) {
  return y.numel() > 0 && row_bytes(x) <= UINT32_MAX;
}
bool scatters(const Tensor& dy, const Tensor&, const Tensor& dx) {
  return takes_f32_or_bf16(dy) && dx.numel() > 0;
}

SACCADE_REGISTER_TUNED_KERNEL(gather_rows, Device::kCuda, &gather_rows_cuda, &gathers);
SACCADE_REGISTER_TUNED_KERNEL(scatter_add_rows, Device::kCuda, &scatter_add_rows_cuda, &scatters);

}  // namespace
}  // namespace saccade::kernels
