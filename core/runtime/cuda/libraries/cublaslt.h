// Products of matrices through cuBLASLt, which is opened when the GPU is first used.
#pragma once

#include "core/runtime/lru_cache.h"
#include "core/tensor/tensor.h"

namespace saccade::cuda {

// A batch of matrices of f32 or bf16: element (b, i, j) is at data + b * batch_stride + i * leading + j, or
// when `transposed` at ... + i + j * leading. Strides are in elements.
struct Matrices {
  void* data;
  DType dtype;
  int64_t rows, columns;
  bool transposed;
  int64_t leading;
  int64_t batch_stride = 0;  // 0: one matrix for all
};

// c = a b of `batch` products. a and b have one dtype; c is not transposed and of the same dtype or f32.
// `bias` [columns of c], undefined or of c's dtype, is added to every row before the result is rounded, and
// so is `residual`, null or laid out as c; then relu. All sizes are at least 1. False when cuBLASLt has no
// algorithm for it: then c is not computed.
//
// f32 is exact or on tensor cores as execution().math says. Sums have one order a shape: the algorithm is the
// first choice of cuBLASLt's heuristic among those that do not add in the order of arrival, for the shape or,
// where thousands of rows are multiplied, for a near one that stands for many.
bool product(int64_t batch, const Matrices& a, const Matrices& b, const Matrices& c, const Tensor& bias = {},
             bool relu = false, const void* residual = nullptr);

// Throws Error when cuBLASLt is missing or too old.
void load_cublaslt();

CacheStats product_plans();
void set_product_plan_capacity(size_t capacity);

}  // namespace saccade::cuda
