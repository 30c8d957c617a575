// Index arithmetic for strided tensors: the shape is first merged into as few axes as the strides allow.
#pragma once

#include "core/tensor/hd.h"
#include "core/tensor/tensor.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// `Count` tensors traversed together in row-major order of one shape. Broadcast axes have stride 0.
template <int Count>
struct StridedLoop {
  int rank = 0;
  int64_t sizes[Shape::kMaxRank] = {};
  int64_t strides[Count][Shape::kMaxRank] = {};

  // Drops size-1 axes and merges neighbours that are contiguous in every tensor.
  static StridedLoop make(const Shape& shape, const Shape (&tensor_strides)[Count]) {
    StridedLoop loop;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      bool merge = loop.rank > 0;
      for (int t = 0; t < Count && merge; ++t)
        merge = loop.strides[t][loop.rank - 1] == tensor_strides[t][axis] * shape[axis];
      if (merge) {
        loop.sizes[loop.rank - 1] *= shape[axis];
      } else {
        loop.sizes[loop.rank++] = shape[axis];
      }
      for (int t = 0; t < Count; ++t) loop.strides[t][loop.rank - 1] = tensor_strides[t][axis];
    }
    if (loop.rank == 0) loop.sizes[loop.rank++] = 1;
    return loop;
  }
  SACCADE_HD int64_t inner() const { return sizes[rank - 1]; }
  SACCADE_HD int64_t step(int t) const { return strides[t][rank - 1]; }          // along the innermost axis
  int64_t row_step(int t) const { return rank > 1 ? strides[t][rank - 2] : 0; }  // to the next row
  SACCADE_HD int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < rank; ++i) n *= sizes[i];
    return n;
  }
  // Offset of the first element of a row (all axes but the innermost) in tensor t.
  SACCADE_HD int64_t row_offset(int t, int64_t row) const {
    int64_t offset = 0;
    for (int i = rank - 2; i >= 0; --i) {
      offset += row % sizes[i] * strides[t][i];
      row /= sizes[i];
    }
    return offset;
  }
};

// A loop over y and each x, broadcast to y's shape.
template <class... X>
StridedLoop<1 + sizeof...(X)> loop_over(const Tensor& y, const X&... x) {
  [[maybe_unused]] auto strides_of = [&](const Tensor& t) {
    return t.shape() == y.shape() ? t.strides() : t.expand(y.shape()).strides();
  };
  return StridedLoop<1 + sizeof...(X)>::make(y.shape(), {y.strides(), strides_of(x)...});
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
