// Multi-scale deformable attention (Zhu et al., Deformable DETR, eq. 3; docs/ms_deform_attn.md), fused from
// logits and offsets: softmax, sampling locations, bilinear gather and weighted sum in one pass, nothing
// sampled is stored.
//
// Shapes: value [N, S, M, D]; reference_points [N, Q, L, R], R = 2: (x, y) or 4: (x, y, w, h); offsets
// [N, Q, M, L, P, 2]; logits [N, Q, M, L * P]; output [N, Q, M * D]. Value and output are of one dtype (f32,
// bf16 or f64); coordinates and logits are f64 with f64 values and f32 otherwise. All contiguous.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// Sizes of the maps that lie behind one another on the token axis. Passed by value, so the count is bounded.
struct MsDeformLevels {
  static constexpr int kMaxLevels = 16;
  int count = 0;
  int64_t height[kMaxLevels] = {};
  int64_t width[kMaxLevels] = {};
  int64_t start[kMaxLevels] = {};  // first token of the level
  int64_t tokens = 0;              // sum of height * width

  void push_back(int64_t h, int64_t w) {
    SACCADE_CHECK(count < kMaxLevels, "[ms_deform_attn] more than {} levels", int{kMaxLevels});
    SACCADE_CHECK(h > 0 && w > 0, "[ms_deform_attn] level {} has size {} x {}, expected positive sizes",
                  count, h, w);
    height[count] = h;
    width[count] = w;
    start[count] = tokens;
    tokens += h * w;
    ++count;
  }
};

// y = attention(value, ...)
inline Kernel<void(const Tensor& value, const Tensor& reference_points, const Tensor& offsets,
                   const Tensor& logits, const MsDeformLevels& levels, Tensor& y)>
    ms_deform_attn_forward{"ms_deform_attn_forward"};

// Gradients of dot(y, dy), each of its input's shape and dtype; undefined outputs are skipped. The softmax is
// recomputed. Deterministic: every gradient element is summed by one owner in query order, on any number of
// threads.
inline Kernel<void(const Tensor& value, const Tensor& reference_points, const Tensor& offsets,
                   const Tensor& logits, const MsDeformLevels& levels, const Tensor& dy, Tensor& dvalue,
                   Tensor& dreference_points, Tensor& doffsets, Tensor& dlogits)>
    ms_deform_attn_backward{"ms_deform_attn_backward"};

// What the attention looks at, for drawing: locations [N, Q, M, L, P, 2] as (x, y) normalised to the padded
// level (the same in every level for one image point) and weights [N, Q, M, L, P], which sum to 1 over L * P.
inline Kernel<void(const Tensor& reference_points, const Tensor& offsets, const Tensor& logits,
                   const MsDeformLevels& levels, Tensor& locations, Tensor& weights)>
    ms_deform_locations{"ms_deform_locations"};

}  // namespace saccade::kernels
