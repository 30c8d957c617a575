// Compares the project's own declarations of NVIDIA's libraries (core/runtime/cuda/libraries/*_api.h) with
// NVIDIA's headers, where these are installed: every enumerator's number, the structs, and the kinds of each
// function's parameters. Not compiled together with other files.
#include <gtest/gtest.h>

#if __has_include( \
    <cuda_runtime.h>) && __has_include(<cublasLt.h>) && __has_include(<cudnn.h>) && __has_include(<nccl.h>)
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace own {
#include "core/runtime/cuda/libraries/cublaslt_api.h"
#include "core/runtime/cuda/libraries/cudnn_api.h"
#include "core/runtime/cuda/libraries/nccl_api.h"
}  // namespace own

namespace saccade {
namespace {

// CMake writes a line for every enumerator of those headers.
#define SAME(name) static_assert(static_cast<int>(own::name) == static_cast<int>(::name), #name);
#if CUDNN_VERSION >= 90800
#define SAME_SINCE_CUDNN_9_8(name) SAME(name)
#else
#define SAME_SINCE_CUDNN_9_8(name)
#endif
#include "tests/core/libraries/library_numbers.inc"

// Whether both are passed in the same way: they have one size, and both are pointers, structs or numbers.
template <class A, class B>
constexpr bool same_kind() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> && std::is_void_v<B>;
  else
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_class_v<A> == std::is_class_v<B>;
}
template <class R, class... A, class S, class... B>
constexpr bool same_call(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B))
    return same_kind<R, S>() && (same_kind<A, B>() && ...);
  else
    return false;
}
#define SAME_CALL(name) static_assert(same_call(&own::name, &::name), #name);
SACCADE_CUBLASLT_FUNCTIONS(SAME_CALL)
SACCADE_CUDNN_FUNCTIONS(SAME_CALL)
SACCADE_NCCL_FUNCTIONS(SAME_CALL)

using Choice = ::cublasLtMatmulHeuristicResult_t;
using OwnChoice = own::cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(OwnChoice) == sizeof(Choice) && alignof(OwnChoice) == alignof(Choice));
static_assert(offsetof(OwnChoice, workspaceSize) == offsetof(Choice, workspaceSize));
static_assert(offsetof(OwnChoice, state) == offsetof(Choice, state));
static_assert(offsetof(OwnChoice, wavesCount) == offsetof(Choice, wavesCount));
static_assert(sizeof(own::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(own::ncclUniqueId) == sizeof(::ncclUniqueId));

constexpr bool kCompared = true;

}  // namespace
}  // namespace saccade
#else
namespace saccade {
namespace {
constexpr bool kCompared = false;
}
}  // namespace saccade
#endif

namespace saccade {
namespace {

TEST(LibraryNumbers, AreThoseOfTheHeaders) {
  if (!kCompared) GTEST_SKIP() << "the headers of cuBLASLt, cuDNN and NCCL are not all here";
}

}  // namespace
}  // namespace saccade
