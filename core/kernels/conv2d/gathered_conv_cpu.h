// The positions that a strided 1x1 convolution reads, as a map of their own.
#pragma once

#include <cstring>

#include "core/runtime/parallel.h"
#include "core/tensor/tensor.h"

namespace saccade::cpu {

// x [N, H, W, C] at every stride-th row and column: [N, rows and columns of y, C].
inline Tensor gathered(const Tensor& x, const Tensor& y, int64_t stride) {
  const int64_t H = x.dim(1), W = x.dim(2), rows = y.dim(1), columns = y.dim(2);
  Tensor out = Tensor::empty({x.dim(0), rows, columns, x.dim(3)}, x.dtype());
  const size_t bytes = static_cast<size_t>(x.dim(3)) * size_of(x.dtype());
  const auto* from = static_cast<const char*>(x.raw());
  auto* to = static_cast<char*>(out.raw());
  parallel_for(x.dim(0) * rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const char* row = from + static_cast<size_t>((r / rows * H + r % rows * stride) * W) * bytes;
      for (int64_t c = 0; c < columns; ++c)
        std::memcpy(to + static_cast<size_t>(r * columns + c) * bytes,
                    row + static_cast<size_t>(c * stride) * bytes, bytes);
    }
  });
  return out;
}

// dx [N, H, W, C]: the gradient of what was gathered, and zeros.
inline void spread(const Tensor& gradient, int64_t stride, Tensor& dx) {
  const int64_t H = dx.dim(1), W = dx.dim(2), rows = gradient.dim(1), columns = gradient.dim(2);
  const size_t bytes = static_cast<size_t>(dx.dim(3)) * size_of(dx.dtype());
  const auto* from = static_cast<const char*>(gradient.raw());
  auto* to = static_cast<char*>(dx.raw());
  parallel_for(dx.dim(0) * H, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      char* row = to + static_cast<size_t>(r * W) * bytes;
      const int64_t read = r % H / stride;
      if (r % H % stride != 0 || read >= rows) {
        std::memset(row, 0, static_cast<size_t>(W) * bytes);
        continue;
      }
      for (int64_t c = 0; c < W; ++c) {
        char* place = row + static_cast<size_t>(c) * bytes;
        const int64_t column = c / stride;
        if (c % stride == 0 && column < columns)
          std::memcpy(place, from + static_cast<size_t>((r / H * rows + read) * columns + column) * bytes,
                      bytes);
        else
          std::memset(place, 0, bytes);
      }
    }
  });
}

}  // namespace saccade::cpu
