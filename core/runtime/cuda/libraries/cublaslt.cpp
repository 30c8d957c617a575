#include "core/runtime/cuda/libraries/cublaslt.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "core/runtime/cuda/api.h"
#include "core/runtime/cuda/libraries/cublaslt_api.h"
#include "core/runtime/cuda/libraries/library_functions.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"

namespace saccade::cuda {
namespace {

// The library's functions under their own names.
struct Api {
#define F(name) decltype(&::name) name;
  SACCADE_CUBLASLT_FUNCTIONS(F)
#undef F
};

constexpr size_t kOldest = kCudaMajor * 10000;

std::string version(size_t v) { return fmt::format("{}.{}", v / 10000, v / 100 % 100); }

Api load() {
  const std::optional<Library> library = open_library(
      {"cuBLASLt", fmt::format("libcublasLt.so.{}", kCudaMajor), pip_package("nvidia-cublas", kCudaMajor)});
  Api api;
#define F(name) api.name = SACCADE_LIBRARY_FUNCTION(library, name);
  SACCADE_CUBLASLT_FUNCTIONS(F)
#undef F
  const size_t found = api.cublasLtGetVersion();
  if (library) library->require_version(found >= kOldest, version(found), version(kOldest));
  return api;
}

const Api& api() {
  static const Api api = load();
  return api;
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("[cuda] {}: {}", call, api().cublasLtGetStatusString(status));
}

// Lives to the end of the program: the driver may be gone before static objects are destroyed.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t handle = [] {
    stream();
    cublasLtHandle_t h = nullptr;
    check(api().cublasLtCreate(&h), "cublasLtCreate");
    return h;
  }();
  return handle;
}

// An owned descriptor of the library.
template <class T, cublasStatus_t (*Api::*kDestroy)(T)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Owned() {
    if (value_) (api().*kDestroy)(value_);
  }
  T* address() { return &value_; }
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using Operation = Owned<cublasLtMatmulDesc_t, &Api::cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, &Api::cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &Api::cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(api().cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
  check(api().cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute");
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(api().cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

// cuBLASLt is column-major: it sees our matrices as their transposes.
Layout describe(const Matrices& m, int64_t batch) {
  Layout layout;
  const int64_t across = m.transposed ? m.rows : m.columns, down = m.transposed ? m.columns : m.rows;
  check(api().cublasLtMatrixLayoutCreate(layout.address(), type_of(m.dtype), static_cast<uint64_t>(across),
                                         static_cast<uint64_t>(down), m.leading),
        "cublasLtMatrixLayoutCreate");
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride);
  return layout;
}

// The largest power of two, up to 256, that divides the address: algorithms need different alignments.
uint32_t alignment_of(const void* p) {
  auto address = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

constexpr uint64_t kWorkspaceBytes = 32 << 20;

struct Plan {
  Operation operation;
  Layout a, b, c;
  bool supported = false;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes = 0;
};

// A few hundred products per image size, for many sizes. Never destroyed, like the handle.
LruCache<Plan>& plans() {
  static auto* plans = new LruCache<Plan>(8192);
  return *plans;
}

// The algorithms that the heuristic chose, by size class. Never destroyed, like the handle.
LruCache<std::optional<cublasLtMatmulHeuristicResult_t>>& algorithms() {
  static auto* algorithms = new LruCache<std::optional<cublasLtMatmulHeuristicResult_t>>(8192);
  return *algorithms;
}

// Token counts vary with the image sizes. An algorithm is chosen for n rounded up to an eighth of a power of
// two, so that it does not depend on which size came first. Numbers of channels stay as they are.
int64_t size_of_class(int64_t n) {
  constexpr int64_t kTokens = 4096;
  if (n < kTokens) return n;
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n))) / 8;
  return ceil_div(n, step) * step;
}
Matrices of_class(Matrices m) {
  m.rows = size_of_class(m.rows);
  m.columns = size_of_class(m.columns);
  m.leading = std::max(m.leading, m.transposed ? m.rows : m.columns);
  return m;
}

struct Product {
  int64_t batch;
  Matrices a, b, c;
  uint32_t bias_alignment;   // 0 if there is none
  uint32_t added_alignment;  // alignment of what the products are added to: c, or a residual
  bool relu, tf32;

  CacheKey key() const {
    CacheKey key;
    for (const Matrices& m : {a, b, c})
      key.add(m.dtype, m.rows, m.columns, m.transposed, m.leading, m.batch_stride, alignment_of(m.data));
    key.add(batch, bias_alignment, added_alignment, relu, tf32);
    return key;
  }
};

std::optional<cublasLtMatmulHeuristicResult_t> ask_heuristic(const Product& p, const Operation& operation) {
  const Layout a = describe(p.a, p.batch), b = describe(p.b, p.batch), c = describe(p.c, p.batch);
  Preference preference;
  check(api().cublasLtMatmulPreferenceCreate(preference.address()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // Sums that are split keep their parts in f32 in the workspace and add them in a separate step.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.added_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  cublasLtMatmulHeuristicResult_t choice;
  int found = 0;
  cublasStatus_t status = api().cublasLtMatmulAlgoGetHeuristic(
      handle(), operation.get(), b.get(), a.get(), c.get(), c.get(), preference.get(), 1, &choice, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  check(choice.state, "cublasLtMatmulAlgoGetHeuristic");
  return choice;
}

// Returns the algorithm of the size class if it supports these sizes, or else one for them alone.
std::optional<cublasLtMatmulHeuristicResult_t> find_algorithm(const Product& p, const Plan& plan) {
  Product of_all = p;
  if (p.batch == 1) of_all.a = of_class(p.a), of_all.b = of_class(p.b), of_all.c = of_class(p.c);
  const CacheKey key = of_all.key();
  if (key.text() == p.key().text()) return ask_heuristic(p, plan.operation);
  const auto shared = algorithms().get(key.text(), [&] { return ask_heuristic(of_all, plan.operation); });
  if (*shared) {
    cublasLtMatmulHeuristicResult_t here = {};
    if (api().cublasLtMatmulAlgoCheck(handle(), plan.operation.get(), plan.b.get(), plan.a.get(),
                                      plan.c.get(), plan.c.get(), &(*shared)->algo,
                                      &here) == CUBLAS_STATUS_SUCCESS &&
        here.workspaceSize <= kWorkspaceBytes) {
      here.algo = (*shared)->algo;
      return here;
    }
  }
  return ask_heuristic(p, plan.operation);
}

// c = a b in row-major order is c^T = b^T a^T in column-major order: our right factor is the library's left
// one, and our columns, along which the bias runs, are its rows. (It supports no bias for row-major results.)
Plan make_plan(const Product& p, const Tensor& bias) {
  const auto& [batch, a, b, c, bias_alignment, added_alignment, relu, tf32] = p;
  Plan plan;
  check(api().cublasLtMatmulDescCreate(plan.operation.address(),
                                       tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  auto operation_of = [](const Matrices& m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(operation_of(b)));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(operation_of(a)));
  if (bias.defined() || relu) {
    auto epilogue =
        bias.defined() ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_RELU;
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
  }
  if (bias.defined())
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.raw()));
  plan.a = describe(a, batch);
  plan.b = describe(b, batch);
  plan.c = describe(c, batch);

  const std::optional<cublasLtMatmulHeuristicResult_t> choice = find_algorithm(p, plan);
  if (!choice) return plan;
  plan.supported = true;
  plan.algorithm = choice->algo;
  plan.workspace_bytes = choice->workspaceSize;
  return plan;
}

void run(const Plan& plan, const Matrices& a, const Matrices& b, const Matrices& c, const Tensor& bias,
         const void* residual) {
  Tensor workspace;
  if (plan.workspace_bytes > 0)
    workspace = Tensor::empty({static_cast<int64_t>(plan.workspace_bytes)}, DType::kU8, Device::kCuda);
  static std::mutex mutex;  // the bias pointer is part of the plan
  std::lock_guard lock(mutex);
  if (bias.defined())
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.raw()));
  const float one = 1, zero = 0;
  ++launches;
  check(api().cublasLtMatmul(handle(), plan.operation.get(), &one, b.data, plan.b.get(), a.data, plan.a.get(),
                             residual ? &one : &zero, residual ? residual : c.data, plan.c.get(), c.data,
                             plan.c.get(), &plan.algorithm, workspace.defined() ? workspace.raw() : nullptr,
                             plan.workspace_bytes, stream()),
        "cublasLtMatmul");
}

}  // namespace

void load_cublaslt() { api(); }
CacheStats product_plans() { return plans().stats(); }
void set_product_plan_capacity(size_t capacity) { plans().set_capacity(capacity); }

bool product(int64_t batch, const Matrices& a, const Matrices& b, const Matrices& c, const Tensor& bias,
             bool relu, const void* residual) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  if (std::max({c.rows, c.columns, a.columns}) > kLargest) return false;
  // Epilogues read the bias in whole vectors.
  constexpr uint32_t kBiasAlignment = 16;
  Tensor added = bias.defined() && alignment_of(bias.raw()) < kBiasAlignment ? bias.clone() : bias;
  const bool tf32 = a.dtype == DType::kF32 && execution().math == MathMode::kTf32;
  auto from = [](Matrices m, int64_t first) {
    m.data = static_cast<char*>(m.data) + first * m.batch_stride * static_cast<int64_t>(size_of(m.dtype));
    return m;
  };
  // Some algorithms use the third grid dimension for the batch.
  constexpr int64_t kMaxBatch = 65535;
  for (int64_t first = 0; first < batch; first += kMaxBatch) {
    const int64_t count = std::min(batch - first, kMaxBatch);
    Matrices sum = c;
    if (residual) sum.data = const_cast<void*>(residual);  // only read
    sum = from(sum, first);
    const Product p{count,
                    from(a, first),
                    from(b, first),
                    from(c, first),
                    added.defined() ? alignment_of(added.raw()) : 0,
                    alignment_of(sum.data),
                    relu,
                    tf32};
    auto plan = plans().get(p.key().text(), [&] { return make_plan(p, added); });
    if (!plan->supported) {
      note_slow_path(fmt::format("product of {} matrices [{}, {}] by [{}, {}] in {}", count, p.a.rows,
                                 p.a.columns, p.b.rows, p.b.columns, p.a.dtype));
      return false;
    }
    run(*plan, p.a, p.b, p.c, added, residual ? sum.data : nullptr);
  }
  return true;
}

}  // namespace saccade::cuda
