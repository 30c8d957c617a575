// RoIAlign in f32 and bf16. Forward: a block has a row of a box's cells; the weights of a box's cell on each
// axis are added up once, in shared memory, so that a cell of the map is read once for it ((g + 1)^2 reads
// for g x g samples instead of 4 g^2), 16 bytes of channels at a time. Backward: a block has a tile of a map.
// It first determines which boxes touch the tile and adds these up in order: no atomics.
#include "core/kernels/roi_align/roi_align.h"
#include "core/kernels/roi_align/roi_samples.h"
#include "core/runtime/cuda/block.h"

namespace saccade::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;
constexpr int kMaxSize = 16;   // cells per side of a box
constexpr int kMaxCells = 16;  // of the map per cell of the box, on an axis; more are computed on demand
constexpr int kTile = 8;       // cells of the map per side

constexpr int kPackThreads = 32;  // have neighbouring packs of channels; other threads have other cells
constexpr int kGroups = kThreads / kPackThreads;

template <class T>
struct LevelMaps {
  T* data[RoiAlignParams::kMaxLevels] = {};
};

// The cells of the map that cell p of the box reads on an axis.
struct Reach {
  int first, count;
  __device__ static Reach of(const RoiAxis<float>& axis, int p) {
    int low = -1, high = -1;
    for (int i = 0; i < axis.samples; ++i) {
      const RoiSample<float> s = axis.sample(p, i);
      if (s.weight_low + s.weight_high == 0) continue;
      if (low < 0) low = s.low;
      high = s.high;
    }
    return low < 0 ? Reach{0, 0} : Reach{low, high - low + 1};
  }
};

// Grid: R * size.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    roi_align_forward_rows(RoiBoxes boxes, LevelMaps<const T> maps, T* y, int packs) {
  SACCADE_SHARED(Reach, reach, kMaxSize + 1);  // of the columns and of the row
  SACCADE_SHARED(float, across, kMaxSize* kMaxCells);
  SACCADE_SHARED(float, down, kMaxCells);
  const int size = boxes.size, thread = static_cast<int>(threadIdx.x),
            row = static_cast<int>(blockIdx.x) % size;
  const int64_t r = blockIdx.x / static_cast<unsigned>(size), C = static_cast<int64_t>(packs) * V;
  const bool on_map = boxes.has_map(r);
  RoiAxis<float> rows, columns;
  if (on_map) {
    rows = boxes.rows<float>(r);
    columns = boxes.columns<float>(r);
  }
  if (rows.samples == 0 || columns.samples == 0) rows.samples = columns.samples = 0;
  if (thread < size) reach[thread] = Reach::of(columns, thread);
  if (thread == kThreads - 1) reach[kMaxSize] = Reach::of(rows, row);
  __syncthreads();
  const float mean = rows.samples > 0 ? roi_mean(rows, columns) : 0;
  for (int i = thread; i < size * kMaxCells; i += kThreads)
    across[i] = columns.weight(reach[i / kMaxCells].first + i % kMaxCells, i / kMaxCells) * mean;
  if (thread < kMaxCells) down[thread] = rows.weight(reach[kMaxSize].first + thread, row);
  __syncthreads();
  const Reach vertical = reach[kMaxSize];
  const int64_t level = on_map ? boxes.levels[r] : 0, W = boxes.width[level];
  const T* map = nullptr;
#pragma unroll
  for (int l = 0; l < RoiAlignParams::kMaxLevels; ++l)
    if (l == level) map = maps.data[l];
  if (on_map) map += boxes.images[r] * boxes.height[level] * W * C;
  for (int q = thread / kPackThreads; q < size; q += kGroups) {
    const Reach horizontal = reach[q];
    for (int pack = thread % kPackThreads; pack < packs; pack += kPackThreads) {
      float sum[V] = {};
      for (int i = 0; i < vertical.count; ++i) {
        const float v = i < kMaxCells ? down[i] : rows.weight(vertical.first + i, row);
        const T* from = map + ((vertical.first + i) * W + horizontal.first) * C + pack * V;
        auto add = [&](int j, float w) {
          float values[V];
          cuda::load_floats<V>(from + j * C, values);
#pragma unroll
          for (int k = 0; k < V; ++k) sum[k] += w * values[k];
        };
        const int few = horizontal.count < kMaxCells ? horizontal.count : kMaxCells;
#pragma unroll 4
        for (int j = 0; j < few; ++j) add(j, v * across[q * kMaxCells + j]);
        for (int j = few; j < horizontal.count; ++j)
          add(j, v * (columns.weight(horizontal.first + j, q) * mean));
      }
      cuda::Pack<T, V> out;
#pragma unroll
      for (int k = 0; k < V; ++k) out.x[k] = static_cast<T>(sum[k]);
      cuda::store_pack(y + ((r * size + row) * size + q) * C + pack * V, out);
    }
  }
}

// Returns whether samples of the axis may contribute to cells [first, first + kTile).
__device__ bool touches_tile(const RoiAxis<float>& axis, int first, int size) {
  const float end = math::fma(static_cast<float>(size), axis.bin, axis.start);
  return axis.samples > 0 && axis.start <= static_cast<float>(first + kTile) &&
         end >= static_cast<float>(first - 1);
}

// Grid: tiles of a map, images, blocks of packs.
template <class T, int V>
__global__ void __launch_bounds__(kThreads, 2)
    roi_align_backward_tiles(RoiBoxes boxes, const T* dy, T* dx, int level, int tiles_across, int packs) {
  SACCADE_SHARED(int, list, kThreads);
  SACCADE_SHARED(int, counts, kWarps);
  SACCADE_SHARED(float, weights, 2 * kTile * kMaxSize);  // of the tile's rows and columns in the box's cells
  SACCADE_SHARED(int, begins, 2 * kTile);
  SACCADE_SHARED(int, ends, 2 * kTile);
  constexpr int kCells = kTile * kTile / kGroups;
  const int size = boxes.size, thread = static_cast<int>(threadIdx.x);
  const int top = static_cast<int>(blockIdx.x) / tiles_across * kTile,
            left = static_cast<int>(blockIdx.x) % tiles_across * kTile;
  const int64_t C = static_cast<int64_t>(packs) * V;
  const int pack = static_cast<int>(blockIdx.z) * kPackThreads + thread % kPackThreads;
  float sums[kCells][V] = {};
  for (int64_t base = 0; base < boxes.count; base += kThreads) {
    const int64_t own = base + thread;
    bool touches = own < boxes.count && boxes.levels[own] == level && boxes.images[own] == blockIdx.y;
    if (touches)
      touches = touches_tile(boxes.rows<float>(own), top, size) &&
                touches_tile(boxes.columns<float>(own), left, size);
    const unsigned votes = __ballot_sync(cuda::kAllLanes, touches);
    const int lane = thread % cuda::kWarp, warp = thread / cuda::kWarp;
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = __popc(votes & ((1u << lane) - 1)), all = 0;
    for (int w = 0; w < kWarps; ++w) {
      before += w < warp ? counts[w] : 0;
      all += counts[w];
    }
    if (touches) list[before] = static_cast<int>(own);
    for (int b = 0; b < all; ++b) {
      __syncthreads();  // the list is complete, and the previous box's weights have been read
      const int64_t r = list[b];
      // Thread t: row or column t / kMaxSize of the tile, cell t % kMaxSize of the box.
      const int line = thread / kMaxSize, cell = thread % kMaxSize;
      const bool is_row = line < kTile;
      const RoiAxis<float> rows = boxes.rows<float>(r), columns = boxes.columns<float>(r);
      RoiAxis<float> axis;
      axis.start = is_row ? rows.start : columns.start;
      axis.bin = is_row ? rows.bin : columns.bin;
      axis.step = is_row ? rows.step : columns.step;
      axis.samples = is_row ? rows.samples : columns.samples;
      axis.length = is_row ? rows.length : columns.length;
      const int place = is_row ? top + line : left + line - kTile;
      int first = 0, last = 0;
      if (axis.samples > 0 && !axis.misses(place, size)) axis.cells(place, size, &first, &last);
      weights[thread] = cell >= first && cell < last
                            ? axis.weight(place, cell) * (is_row ? roi_mean(rows, columns) : 1.0f)
                            : 0.0f;
      if (cell == 0) {
        begins[line] = first;
        ends[line] = last;
      }
      __syncthreads();
      if (pack < packs) {
        const T* from = dy + r * size * size * C + pack * V;
#pragma unroll
        for (int c = 0; c < kCells; ++c) {
          const int i = (c * kGroups + thread / kPackThreads) / kTile,
                    j = (c * kGroups + thread / kPackThreads) % kTile + kTile;
          for (int p = begins[i]; p < ends[i]; ++p) {
            const float v = weights[i * kMaxSize + p];
            if (v == 0) continue;
            for (int q = begins[j]; q < ends[j]; ++q) {
              const float w = v * weights[j * kMaxSize + q];
              if (w == 0) continue;
              float values[V];
              cuda::load_floats<V>(from + (p * size + q) * C, values);
#pragma unroll
              for (int k = 0; k < V; ++k) sums[c][k] += w * values[k];
            }
          }
        }
      }
    }
    __syncthreads();  // before the list changes
  }
  if (pack >= packs) return;
#pragma unroll
  for (int c = 0; c < kCells; ++c) {
    const int i = top + (c * kGroups + thread / kPackThreads) / kTile,
              j = left + (c * kGroups + thread / kPackThreads) % kTile;
    if (i >= boxes.height[level] || j >= boxes.width[level]) continue;
    cuda::Pack<T, V> out;
#pragma unroll
    for (int k = 0; k < V; ++k) out.x[k] = static_cast<T>(sums[c][k]);
    const int64_t at = (static_cast<int64_t>(blockIdx.y) * boxes.height[level] + i) * boxes.width[level] + j;
    cuda::store_pack(dx + at * C + pack * V, out);
  }
}

static_assert(2 * kTile * kMaxSize == kThreads);

bool fits(const Tensor& rois, const RoiAlignParams& p, const Tensor& y, const std::vector<Tensor>& maps) {
  if (!takes_f32_or_bf16(y) || y.numel() == 0 || p.size > kMaxSize || rois.dim(0) * p.size > INT32_MAX)
    return false;
  for (const Tensor& map : maps)
    if (map.defined() &&
        (map.numel() == 0 || map.numel() > INT32_MAX || !cuda::rows_fit_packs(y.dim(3), y, map)))
      return false;
  return true;
}

bool forward_supported(const Tensor& rois, const Tensor&, const Tensor&, const std::vector<Tensor>& levels,
                       const RoiAlignParams& p, const Tensor& y) {
  return fits(rois, p, y, levels);
}

bool backward_supported(const Tensor& rois, const Tensor&, const Tensor&, const Tensor& dy,
                        const RoiAlignParams& p, const std::vector<Tensor>& dlevels) {
  return fits(rois, p, dy, dlevels);
}

void forward_cuda(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                  const std::vector<Tensor>& levels, const RoiAlignParams& p, Tensor& y) {
  cuda::dispatch_packs(y.dtype(), true, [&]<class T, int V>() {
    if constexpr (V > 1) {
      const RoiBoxes boxes(rois, level_of_roi, image_of_roi, levels, p);
      LevelMaps<const T> maps;
      for (size_t l = 0; l < levels.size(); ++l) maps.data[l] = levels[l].data<T>();
      cuda::launch("roi_align_forward_rows", &roi_align_forward_rows<T, V>, {boxes.count * p.size, kThreads},
                   boxes, maps, y.data<T>(), static_cast<int>(y.dim(3) / V));
    }
  });
}

void backward_cuda(const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
                   const Tensor& dy, const RoiAlignParams& p, std::vector<Tensor>& dlevels) {
  cuda::dispatch_packs(dy.dtype(), true, [&]<class T, int V>() {
    if constexpr (V > 1) {
      const RoiBoxes boxes(rois, level_of_roi, image_of_roi, dlevels, p);
      for (size_t l = 0; l < dlevels.size(); ++l) {
        Tensor& dx = dlevels[l];
        if (!dx.defined()) continue;
        const int64_t across = ceil_div(dx.dim(2), kTile), packs = dx.dim(3) / V;
        cuda::launch(
            "roi_align_backward_tiles", &roi_align_backward_tiles<T, V>,
            {{ceil_div(dx.dim(1), kTile) * across, dx.dim(0), ceil_div(packs, kPackThreads)}, kThreads},
            boxes, dy.data<T>(), dx.data<T>(), static_cast<int>(l), static_cast<int>(across),
            static_cast<int>(packs));
      }
    }
  });
}

SACCADE_REGISTER_TUNED_KERNEL(roi_align_forward, Device::kCuda, &forward_cuda, &forward_supported);
SACCADE_REGISTER_TUNED_KERNEL(roi_align_backward, Device::kCuda, &backward_cuda, &backward_supported);

}  // namespace
}  // namespace saccade::kernels
