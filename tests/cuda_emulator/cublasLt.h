// What the stand-in for cuBLASLt keeps of layouts, products and preferences. It refuses what the library
// refuses, and some things that the library allows but that we must not do (see cublasLt.cpp).
#pragma once

#include "core/runtime/cuda/libraries/cublaslt_api.h"

// Column major; the library's other orders are not used.
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D in bytes
};
using EmulatedMatrixLayout = cublasLtMatrixLayoutOpaque_t;
using EmulatedMatmulDesc = cublasLtMatmulDescOpaque_t;
using EmulatedMatmulPreference = cublasLtMatmulPreferenceOpaque_t;

namespace saccade::emulator {

// For tests: how many products ran, how often the heuristic was asked, and whether the library reports that
// it has no algorithm.
uint64_t products_run();
uint64_t product_heuristics();
void refuse_products(bool refuse);

}  // namespace saccade::emulator
