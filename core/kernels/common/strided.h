// Index arithmetic for strided tensors: the shape is first merged to as few axes as the strides allow.
#pragma once

#include "core/runtime/kernel.h"
#include "core/tensor/hd.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

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

// A StridedLoop cut into calls of similar size: a long row into chunks, short rows gathered into one call, so
// that every thread has work and index arithmetic is rare. On the GPU a call is one element, so that
// neighbouring threads touch neighbouring elements.
template <int Count>
struct StridedCalls {
  static constexpr bool kSingle = kCompiledDevice == Device::kCuda;
  static constexpr int64_t kChunk = 16384;  // elements of a long row in one call
  static constexpr int64_t kGather = 2048;  // elements of short rows in one call
  StridedLoop<Count> loop;
  int64_t rows, inner, chunks_per_row, rows_per_call;

  explicit StridedCalls(const StridedLoop<Count>& strided)
      : loop(strided), rows(loop.rows()), inner(loop.inner()) {
    chunks_per_row = ceil_div(inner, kChunk);
    rows_per_call = inner < kGather ? kGather / inner : 1;
  }
  int64_t count() const {
    if (kSingle) return rows * inner;
    return chunks_per_row > 1 ? rows * chunks_per_row : ceil_div(rows, rows_per_call);
  }
  int64_t cost() const {
    return inner < kChunk ? rows_per_call * inner : kChunk;
  }  // of one call, for for_each
  SACCADE_HD int64_t step(int t) const { return loop.strides[t][loop.rank - 1]; }

  // f(offsets, n) for each stretch of call i: n elements of tensor t from offsets[t] on, step(t) apart.
  template <class F>
  SACCADE_HD void visit(int64_t i, const F& f) const {
    if constexpr (kSingle) {
      visit_single(i, f);
    } else {
      visit_stretches(i, f);
    }
  }

 private:
  template <class F>
  SACCADE_HD void visit_single(int64_t i, const F& f) const {
    int64_t offsets[Count] = {};
    if (i <= UINT32_MAX) {  // 64-bit division takes several times as long
      uint32_t rest = static_cast<uint32_t>(i);
      for (int a = loop.rank - 1; a >= 0; --a) {
        uint32_t size = static_cast<uint32_t>(loop.sizes[a]), index = a > 0 ? rest % size : rest;
        rest /= size;
        for (int t = 0; t < Count; ++t) offsets[t] += static_cast<int64_t>(index) * loop.strides[t][a];
      }
    } else {
      for (int a = loop.rank - 1; a >= 0; --a) {
        for (int t = 0; t < Count; ++t) offsets[t] += i % loop.sizes[a] * loop.strides[t][a];
        i /= loop.sizes[a];
      }
    }
    f(offsets, 1);
  }
  template <class F>
  SACCADE_HD void visit_stretches(int64_t i, const F& f) const {
    int64_t offsets[Count], index[Shape::kMaxRank];
    int64_t row = chunks_per_row > 1 ? i / chunks_per_row : i * rows_per_call, rest = row;
    for (int t = 0; t < Count; ++t) offsets[t] = 0;
    for (int a = loop.rank - 2; a >= 0; --a) {
      index[a] = rest % loop.sizes[a];
      rest /= loop.sizes[a];
      for (int t = 0; t < Count; ++t) offsets[t] += index[a] * loop.strides[t][a];
    }
    if (chunks_per_row > 1) {
      int64_t begin = i % chunks_per_row * kChunk;
      for (int t = 0; t < Count; ++t) offsets[t] += begin * step(t);
      f(offsets, inner - begin < kChunk ? inner - begin : kChunk);
      return;
    }
    int64_t end = row + rows_per_call < rows ? row + rows_per_call : rows;
    for (; row < end; ++row) {
      f(offsets, inner);
      for (int a = loop.rank - 2; a >= 0; --a) {
        for (int t = 0; t < Count; ++t) offsets[t] += loop.strides[t][a];
        if (++index[a] < loop.sizes[a]) break;
        for (int t = 0; t < Count; ++t) offsets[t] -= loop.strides[t][a] * loop.sizes[a];
        index[a] = 0;
      }
    }
  }
};

// Broadcasts t's strides to the shape of y.
inline Shape strides_in(const Tensor& t, const Tensor& y) {
  return t.shape() == y.shape() ? t.strides() : t.expand(y.shape()).strides();
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
