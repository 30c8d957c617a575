// Weight gradient of a depthwise convolution, sixteen channels at a time. oneDNN 2 is slow there: in bf16 its
// one for a 5 x 5 kernel takes longer than the rest of a deformable attention layer.
#pragma once

#include <algorithm>

#include "core/kernels/common/lane_vector.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/conv2d/conv2d.h"
#include "core/runtime/parallel.h"

namespace saccade::cpu {

// dw [C, 1, R, S] from dy [N, OH, OW, C] and x [N, H, W, C]. Each channel's sums have one owner and one
// order: first along a row of the output, then over rows and images.
template <class T>
void depthwise_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p, Tensor& dw) {
  int64_t N = x.dim(0), H = x.dim(1), W = x.dim(2), C = x.dim(3), OH = dy.dim(1), OW = dy.dim(2);
  int64_t R = dw.dim(2), S = dw.dim(3);
  int64_t blocks = ceil_div(C, kLanes);
  const T *from_x = x.data<T>(), *from_dy = dy.data<T>();
  float* out = dw.data<float>();
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    LaneVector<float> sums(static_cast<size_t>(R * S * kLanes));
    for (int64_t block = begin; block < end; ++block) {
      int64_t c0 = block * kLanes, count = std::min<int64_t>(kLanes, C - c0);
      auto at = [count](const T* from) { return load_some(from, count); };
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t row = 0; row < N * OH; ++row) {
        const T* g = from_dy + row * OW * C + c0;
        for (int64_t r = 0; r < R; ++r) {
          int64_t y = row % OH * p.stride - p.padding + r * p.dilation;
          if (y < 0 || y >= H) continue;
          const T* line = from_x + (row / OH * H + y) * W * C + c0;
          for (int64_t s = 0; s < S; ++s) {
            int64_t shift = s * p.dilation - p.padding;  // of the input's column against stride * output's
            int64_t first = shift < 0 ? (-shift + p.stride - 1) / p.stride : 0;
            int64_t last = W > shift ? std::min(OW, (W - shift - 1) / p.stride + 1) : 0;
            Floats sum{};
            for (int64_t i = first; i < last; ++i)
              sum += at(g + i * C) * at(line + (i * p.stride + shift) * C);
            float* total = sums.data() + (r * S + s) * kLanes;
            store(total, load(total) + sum);
          }
        }
      }
      for (int64_t c = 0; c < count; ++c)
        for (int64_t tap = 0; tap < R * S; ++tap)
          out[(c0 + c) * R * S + tap] = sums[static_cast<size_t>(tap * kLanes + c)];
    }
  });
}

}  // namespace saccade::cpu
