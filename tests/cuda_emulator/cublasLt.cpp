#include "tests/cuda_emulator/cublasLt.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include "core/tensor/dtype.h"
#include "tests/cuda_emulator/library_faults.h"

namespace {

using saccade::bf16;
using saccade::emulator::Access;
using saccade::emulator::check_access;

bool refused = false;
uint64_t runs = 0, heuristics = 0;

template <class T>
cublasStatus_t assign(T& target, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

size_t size_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

bool valid(const EmulatedMatrixLayout& m) {
  constexpr uint64_t kLargest = std::numeric_limits<int32_t>::max();
  return m.rows > 0 && m.columns > 0 && m.rows <= kLargest && m.columns <= kLargest &&
         m.leading >= static_cast<int64_t>(m.rows) && m.batch > 0 && m.batch_stride >= 0;
}

bool same(const EmulatedMatrixLayout& a, const EmulatedMatrixLayout& b) {
  return a.type == b.type && a.rows == b.rows && a.columns == b.columns && a.leading == b.leading &&
         a.batch == b.batch && a.batch_stride == b.batch_stride;
}

struct Sizes {
  uint64_t m, n, k;
};

// The checks that the heuristic and the product share; sets the sizes.
cublasStatus_t check(const EmulatedMatmulDesc& desc, const EmulatedMatrixLayout& a,
                     const EmulatedMatrixLayout& b, const EmulatedMatrixLayout& c,
                     const EmulatedMatrixLayout& d, Sizes& sizes) {
  if (!valid(a) || !valid(b) || !valid(d) || !same(c, d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.batch != d.batch || b.batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  if (d.batch > 1 && d.batch_stride < d.leading * static_cast<int64_t>(d.columns))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool ta = desc.transpose_a == CUBLAS_OP_T, tb = desc.transpose_b == CUBLAS_OP_T;
  sizes = {d.rows, d.columns, ta ? a.rows : a.columns};
  if ((ta ? a.columns : a.rows) != sizes.m || (tb ? b.rows : b.columns) != sizes.n ||
      (tb ? b.columns : b.rows) != sizes.k)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool f32 = a.type == CUDA_R_32F && b.type == CUDA_R_32F && d.type == CUDA_R_32F;
  const bool low = a.type == CUDA_R_16BF && b.type == CUDA_R_16BF && desc.compute == CUBLAS_COMPUTE_32F;
  if ((!f32 && !low) || desc.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) {
    if (desc.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (reinterpret_cast<uintptr_t>(desc.bias) % 16 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// What an algorithm was chosen for; a product of anything else is refused.
struct Choice {
  uint32_t epilogue;
  uint8_t alignment[4];  // of a, b, c and d, in units of 2 bytes, less one
  uint8_t parts;         // of the sums
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

size_t workspace_of(const Choice& choice, const Sizes& sizes) {
  return choice.parts > 1 ? choice.parts * sizes.m * sizes.n * sizeof(float) : 0;
}

// The sizes for which an algorithm was found or checked; it does not run with others.
using Known = std::array<uint64_t, 8>;
Known known(const Choice& choice, const Sizes& sizes, const EmulatedMatrixLayout& a,
            const EmulatedMatrixLayout& b, const EmulatedMatrixLayout& d) {
  auto leading = [](const EmulatedMatrixLayout& m) { return static_cast<uint64_t>(m.leading); };
  return {sizes.m, sizes.n, sizes.k, leading(a), leading(b), leading(d), choice.epilogue, choice.parts};
}
std::set<Known> validated;

float load(const char* p, cudaDataType_t type, bool tf32) {
  if (type == CUDA_R_16BF) {
    bf16 v;
    std::memcpy(&v, p, sizeof v);
    return static_cast<float>(v);
  }
  float v;
  std::memcpy(&v, p, sizeof v);
  if (!tf32) return v;
  uint32_t bits = (std::bit_cast<uint32_t>(v) + 0x1000u) & ~0x1FFFu;  // 10 bits of mantissa
  return std::bit_cast<float>(bits);
}

void store(char* p, cudaDataType_t type, float v) {
  if (type == CUDA_R_16BF) {
    bf16 low(v);
    std::memcpy(p, &low, sizeof low);
  } else {
    std::memcpy(p, &v, sizeof v);
  }
}

struct Side {
  const char* data;
  EmulatedMatrixLayout layout;
};

// The elements of op(matrix number `batch`), columns one after the other; each read is checked.
std::vector<float> read(const Side& side, int32_t batch, bool transposed, bool tf32) {
  const EmulatedMatrixLayout& m = side.layout;
  const size_t element = size_of(m.type);
  std::vector<float> out(m.rows * m.columns);
  for (uint64_t j = 0; j < m.columns; ++j) {
    auto offset = batch * m.batch_stride + static_cast<int64_t>(j) * m.leading;
    const char* column = side.data + offset * static_cast<int64_t>(element);
    check_access(column, m.rows * element, Access::kRead);
    for (uint64_t i = 0; i < m.rows; ++i)
      out[transposed ? i * m.columns + j : j * m.rows + i] = load(column + i * element, m.type, tf32);
  }
  return out;
}

// d = op(a) op(b) + c with the epilogue; c is null where beta is 0.
void multiply(const EmulatedMatmulDesc& op, const Sizes& sizes, const Side& left, const Side& right,
              const void* c, void* d, const EmulatedMatrixLayout& layout) {
  const bool tf32 = op.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const size_t element = size_of(layout.type);
  const auto* bias = static_cast<const char*>(op.bias);
  if (op.epilogue & CUBLASLT_EPILOGUE_BIAS) check_access(bias, sizes.m * element, Access::kRead);
  for (int32_t batch = 0; batch < layout.batch; ++batch) {
    // [m rows of k] and [n columns of k]
    std::vector<float> x = read(left, batch, op.transpose_a == CUBLAS_OP_N, tf32);
    std::vector<float> y = read(right, batch, op.transpose_b == CUBLAS_OP_T, tf32);
    for (uint64_t j = 0; j < sizes.n; ++j) {
      auto offset = batch * layout.batch_stride + static_cast<int64_t>(j) * layout.leading;
      char* column = static_cast<char*>(d) + offset * static_cast<int64_t>(element);
      const char* added = c ? static_cast<const char*>(c) + offset * static_cast<int64_t>(element) : nullptr;
      if (added) check_access(added, sizes.m * element, Access::kRead);
      check_access(column, sizes.m * element, Access::kWrite);
      for (uint64_t i = 0; i < sizes.m; ++i) {
        double sum = 0;
        for (uint64_t k = 0; k < sizes.k; ++k) sum += double{x[i * sizes.k + k]} * y[j * sizes.k + k];
        auto v = static_cast<float>(sum);
        if (added) v += load(added + i * element, layout.type, false);
        if (op.epilogue & CUBLASLT_EPILOGUE_BIAS) v += load(bias + i * element, layout.type, false);
        if (op.epilogue & CUBLASLT_EPILOGUE_RELU) v = std::max(v, 0.0f);
        store(column + i * element, layout.type, v);
      }
    }
  }
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) {
    static std::string text;
    text = "the emulator reports: " + saccade::emulator::fault();
    return text.c_str();
  }
  return status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value" : "not supported";
}

size_t cublasLtGetVersion() { return CUDART_VERSION * 10; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout = new EmulatedMatrixLayout{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? assign(layout->batch, value, bytes)
                                                         : assign(layout->batch_stride, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = new EmulatedMatmulDesc{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(preference->reductions, value, bytes);
    default:
      return assign(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                    bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  Sizes sizes;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check(*desc, *a, *b, *c, *d, sizes); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (refused) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (saccade::emulator::library_faults().no_products) return CUBLAS_STATUS_SUCCESS;
  // The library allows every scheme. We do not: one adds in place and one rounds parts to the result's dtype.
  if (preference->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++heuristics;
  Choice choice{desc->epilogue};
  for (size_t i = 0; i < 4; ++i) choice.alignment[i] = static_cast<uint8_t>(preference->alignment[i] / 2 - 1);
  // Long sums of small results are cut in two where the workspace suffices.
  choice.parts = sizes.k >= 4 * std::max(sizes.m, sizes.n) ? 2 : 1;
  if (workspace_of(choice, sizes) > preference->workspace) choice.parts = 1;
  validated.insert(known(choice, sizes, *a, *b, *d));
  *results = {};
  std::memcpy(&results->algo, &choice, sizeof choice);
  results->workspaceSize = workspace_of(choice, sizes);
  results->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// An odd number of products cannot be cut in two.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  Sizes sizes;
  if (cublasStatus_t status = check(*desc, *a, *b, *c, *d, sizes); status != CUBLAS_STATUS_SUCCESS)
    return status;
  Choice choice;
  std::memcpy(&choice, algo, sizeof choice);
  if (choice.epilogue != desc->epilogue || (choice.parts > 1 && sizes.k % 2 != 0))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  validated.insert(known(choice, sizes, *a, *b, *d));
  *result = {};
  result->workspaceSize = workspace_of(choice, sizes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  Sizes sizes;
  if (cublasStatus_t status = check(*desc, *a_layout, *b_layout, *c_layout, *d_layout, sizes);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  const bool adds = *static_cast<const float*>(beta) == 1;
  if (*static_cast<const float*>(alpha) != 1 || (!adds && (*static_cast<const float*>(beta) != 0 || c != d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  Choice choice;
  std::memcpy(&choice, algo, sizeof choice);
  if (choice.epilogue != desc->epilogue ||
      !validated.contains(known(choice, sizes, *a_layout, *b_layout, *d_layout)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* pointers[] = {a, b, c, d};
  for (size_t i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(pointers[i]) % ((choice.alignment[i] + 1u) * 2) != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes < workspace_of(choice, sizes)) return CUBLAS_STATUS_INVALID_VALUE;

  ++runs;
  // Copies the descriptor and the layouts, which may be gone when a graph repeats the product.
  saccade::emulator::issue(*stream,
                           [=, op = *desc, left = Side{static_cast<const char*>(a), *a_layout},
                            right = Side{static_cast<const char*>(b), *b_layout}, result = *d_layout] {
                             const void* used[] = {a, b, adds ? c : d, d, workspace};
                             if (!saccade::emulator::order_kernel(*stream, used, sizeof used)) return;
                             // A single thread suffices: only bounds and unwritten memory are checked.
                             saccade::emulator::launch("cublasLtMatmul", {1, 1, 1}, {1, 1, 1}, 0, [&] {
                               if (size_t bytes = workspace_of(choice, sizes); bytes > 0)
                                 check_access(workspace, bytes, Access::kWrite);
                               multiply(op, sizes, left, right, adds ? c : nullptr, d, result);
                             });
                           });
  return saccade::emulator::fault().empty() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

namespace saccade::emulator {

uint64_t products_run() { return runs; }
uint64_t product_heuristics() { return heuristics; }
void refuse_products(bool refuse) { refused = refuse; }

}  // namespace saccade::emulator
