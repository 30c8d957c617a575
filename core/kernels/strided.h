// Index arithmetic for strided tensors: the shape is first merged to as few axes as the strides allow.
#pragma once

#include "core/hd.h"
#include "core/tensor.h"

namespace saccade::kernels {

// `Count` tensors walked together in row-major order of one shape. Broadcast axes have stride 0.
template <int Count>
struct StridedLoop {
  int rank = 0;
  int64_t sizes[Shape::kMaxRank] = {};
  int64_t strides[Count][Shape::kMaxRank] = {};

  // Drops size-1 axes and merges neighbours that are contiguous in every tensor.
  static StridedLoop make(const Shape& shape, const Shape* const (&tensor_strides)[Count]) {
    StridedLoop loop;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      bool merge = loop.rank > 0;
      for (int t = 0; t < Count && merge; ++t)
        merge = loop.strides[t][loop.rank - 1] == (*tensor_strides[t])[axis] * shape[axis];
      if (merge) {
        loop.sizes[loop.rank - 1] *= shape[axis];
      } else {
        loop.sizes[loop.rank++] = shape[axis];
      }
      for (int t = 0; t < Count; ++t) loop.strides[t][loop.rank - 1] = (*tensor_strides[t])[axis];
    }
    if (loop.rank == 0) {
      loop.rank = 1;
      loop.sizes[0] = 1;
      for (int t = 0; t < Count; ++t) loop.strides[t][0] = 0;
    }
    return loop;
  }
  SACCADE_HD int64_t inner() const { return sizes[rank - 1]; }
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

// Rows of a StridedLoop cut into pieces, so that one long row still gives every thread work.
struct RowPieces {
  static constexpr int64_t kPiece = 16384;
  int64_t inner, per_row;

  explicit RowPieces(int64_t inner_size) : inner(inner_size), per_row((inner_size + kPiece - 1) / kPiece) {}
  SACCADE_HD int64_t row(int64_t i) const { return per_row == 1 ? i : i / per_row; }
  SACCADE_HD int64_t begin(int64_t i) const { return per_row == 1 ? 0 : i % per_row * kPiece; }
  SACCADE_HD int64_t end(int64_t i) const {
    int64_t e = begin(i) + kPiece;
    return e < inner ? e : inner;
  }
  int64_t cost() const { return inner < kPiece ? inner : kPiece; }  // for for_each
};

}  // namespace saccade::kernels
