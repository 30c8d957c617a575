// Bilinear resizing for the CPU: an axis's cells are computed once for all rows, and channels are processed
// in blocks that stay in registers. Each number consists of the same products, in the same order and rounded
// at the same places, as in resize.cpp.
#include "core/kernels/resize/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/resize/resize_axis.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using Axis = ResizeAxis<float>;

std::vector<Axis::Cells> cells_of_outputs(const Axis& axis) {
  std::vector<Axis::Cells> cells;
  for (int64_t out = 0; out < axis.after; ++out) cells.push_back(axis.cells(out));
  return cells;
}

struct ResizeShare {  // an output's weight for a cell
  int64_t out;
  float weight;
};

std::vector<std::vector<ResizeShare>> shares_of_cells(const Axis& axis) {
  std::vector<std::vector<ResizeShare>> shares(static_cast<size_t>(axis.before));
  for (int64_t cell = 0; cell < axis.before; ++cell)
    for (int64_t out = axis.first(cell), last = axis.last(cell); out < last; ++out)
      if (const float weight = axis.cells(out).of(cell); weight != 0)
        shares[static_cast<size_t>(cell)].push_back({out, weight});
  return shares;
}

// Calls f.template operator()<n>(c) for blocks of n channels from c on.
template <class F>
void for_channel_blocks(int64_t channels, const F& f) {
  int64_t c = 0;
  for (; c + 64 <= channels; c += 64) f.template operator()<64>(c);
  for (; c + 16 <= channels; c += 16) f.template operator()<16>(c);
  for (; c + 4 <= channels; c += 4) f.template operator()<4>(c);
  for (; c < channels; ++c) f.template operator()<1>(c);
}

int64_t rows_of_a_thread(int64_t operations) {  // operations: per row
  constexpr int64_t kWorthAThread = 16384;
  return std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(operations, 1));
}

template <class T>
void blend_rows(const Tensor& x, Tensor& y) {
  const int64_t H = x.dim(1), W = x.dim(2), OH = y.dim(1), OW = y.dim(2), C = x.dim(3);
  const auto rows = cells_of_outputs({H, OH, true}), columns = cells_of_outputs({W, OW, true});
  const T* from = x.data<T>();
  T* to = y.data<T>();
  parallel_for(y.dim(0) * OH, rows_of_a_thread(4 * OW * C), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Axis::Cells& v = rows[static_cast<size_t>(i % OH)];
      const T *low = from + (i / OH * H + v.low) * W * C, *high = from + (i / OH * H + v.high) * W * C;
      for (int64_t ow = 0; ow < OW; ++ow) {
        const Axis::Cells& h = columns[static_cast<size_t>(ow)];
        const T *a = low + h.low * C, *b = low + h.high * C, *d = high + h.low * C, *e = high + h.high * C;
        T* out = to + (i * OW + ow) * C;
        const float wa = v.weight_low * h.weight_low, wb = v.weight_low * h.weight_high,
                    wd = v.weight_high * h.weight_low, we = v.weight_high * h.weight_high;
        // A non-finite value with weight 0 is ignored.
        const bool all = wb != 0 && wd != 0;
        const T* second = wb != 0 ? b : d;
        const float ws = wb != 0 ? wb : wd;
        for_channel_blocks(C, [&]<int kBlock>(int64_t c) {
          float sum[kBlock];
          for (int k = 0; k < kBlock; ++k) {
            const float first = static_cast<float>(a[c + k]);
            sum[k] = ws != 0 ? std::fma(wa, first, ws * static_cast<float>(second[c + k])) : wa * first;
          }
          if (all)
            for (int k = 0; k < kBlock; ++k) {
              sum[k] = std::fma(wd, static_cast<float>(d[c + k]), sum[k]);
              sum[k] = std::fma(we, static_cast<float>(e[c + k]), sum[k]);
            }
          for (int k = 0; k < kBlock; ++k) out[c + k] = static_cast<T>(sum[k]);
        });
      }
    }
  });
}

template <class T>
void gather_cells(const Tensor& dy, Tensor& dx) {
  const int64_t H = dx.dim(1), W = dx.dim(2), OH = dy.dim(1), OW = dy.dim(2), C = dx.dim(3);
  const auto rows = shares_of_cells({H, OH, true}), columns = shares_of_cells({W, OW, true});
  const T* from = dy.data<T>();
  T* to = dx.data<T>();
  // A row of cells contributes to OH / H rows of outputs on each side.
  const int64_t operations = 4 * ceil_div(OH, H) * std::max(OW, W) * C;
  parallel_for(dx.dim(0) * H, rows_of_a_thread(operations), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* map = from + i / H * OH * OW * C;
      for (int64_t column = 0; column < W; ++column)
        for_channel_blocks(C, [&]<int kBlock>(int64_t c) {
          float sum[kBlock] = {};
          for (const ResizeShare& row : rows[static_cast<size_t>(i % H)])
            for (const ResizeShare& share : columns[static_cast<size_t>(column)]) {
              const float w = row.weight * share.weight;
              const T* g = map + (row.out * OW + share.out) * C + c;
              for (int k = 0; k < kBlock; ++k) sum[k] = std::fma(w, static_cast<float>(g[k]), sum[k]);
            }
          T* out = to + (i * W + column) * C + c;
          for (int k = 0; k < kBlock; ++k) out[k] = static_cast<T>(sum[k]);
        });
    }
  });
}

void resize_forward_cpu(const Tensor& x, Resampling, Tensor& y) {
  dispatch_dtype<float, bf16>(x.dtype(), "resize", [&]<class T>() { blend_rows<T>(x, y); });
}
void resize_backward_cpu(const Tensor& dy, Resampling, Tensor& dx) {
  dispatch_dtype<float, bf16>(dy.dtype(), "resize", [&]<class T>() { gather_cells<T>(dy, dx); });
}
bool takes_resize(const Tensor& from, const Resampling& how, const Tensor& to) {
  return how == Resampling::kBilinear && takes_f32_or_bf16(from) && to.numel() > 0;
}

SACCADE_REGISTER_TUNED_KERNEL(resize_forward, Device::kCpu, &resize_forward_cpu, &takes_resize);
SACCADE_REGISTER_TUNED_KERNEL(resize_backward, Device::kCpu, &resize_backward_cpu, &takes_resize);

}  // namespace
}  // namespace saccade::kernels
