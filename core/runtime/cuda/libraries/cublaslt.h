// Matrix products through cuBLASLt, which is opened when the GPU is first used.
#pragma once

#include "core/runtime/lru_cache.h"
#include "core/tensor/tensor.h"

namespace saccade::cuda {

// A batch of f32 or bf16 matrices: element (b, i, j) is at data + b * batch_stride + i * leading + j, or at
// ... + i + j * leading if `transposed`. Strides are in elements.
struct Matrices {
  void* data;
  DType dtype;
  int64_t rows, columns;
  bool transposed;
  int64_t leading;
  int64_t batch_stride = 0;  // 0: one matrix for all
};

// Computes c = a b for `batch` products. a and b have the same dtype; c is not transposed and has that dtype
// or f32. `bias` [columns of c], undefined or of c's dtype, is added to every row before the result is
// rounded, and so is `residual`, null or laid out as c; ReLU follows if `relu`. All sizes are at least 1.
// Returns false, and leaves c alone, if cuBLASLt has no algorithm for it.
//
// f32 is exact or uses tensor cores as execution().math says. Each shape has one order of summation: the
// algorithm is the first choice of cuBLASLt's heuristic among those that do not add in order of arrival, for
// the shape itself or, with thousands of rows, for a nearby shape that represents many.
bool product(int64_t batch, const Matrices& a, const Matrices& b, const Matrices& c, const Tensor& bias = {},
             bool relu = false, const void* residual = nullptr);

// Throws Error if cuBLASLt is missing or too old.
void load_cublaslt();

CacheStats product_plans();
void set_product_plan_capacity(size_t capacity);

}  // namespace saccade::cuda
