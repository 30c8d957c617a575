// Element types. Floating kernels are written once as templates and reached through dispatch_dtype.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/tensor/error.h"
#include "core/tensor/hd.h"

namespace saccade {

enum class DType : uint8_t { kF32, kBF16, kF64, kI32, kI64, kU8, kBool };

// bfloat16: the upper half of a float; conversion from float rounds to nearest even and keeps NaN a NaN.
struct bf16 {
  uint16_t bits;

  bf16() = default;
  SACCADE_HD explicit bf16(float x) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    uint32_t u = std::bit_cast<uint32_t>(x);
    uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? (u >> 16) | 0x40u : rounded);
#endif
  }
  SACCADE_HD explicit bf16(double x) : bf16(static_cast<float>(x)) {}
  SACCADE_HD operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// The type in which a kernel computes: f64 stays f64, f32 and bf16 compute in f32.
template <class T>
using acc_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, bf16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
}();

size_t size_of(DType dtype);
std::string_view name_of(DType dtype);
constexpr bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF64;
}
// The dtype for sums of products of `dtype`, such as biases, statistics and weight gradients; see acc_t.
constexpr DType sum_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
// The wider of two floating types: bf16 < f32 < f64.
DType widest(DType a, DType b);

}  // namespace saccade

// Formats a dtype in messages as its name.
template <>
struct fmt::formatter<saccade::DType> : fmt::formatter<std::string_view> {
  auto format(saccade::DType dtype, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(saccade::name_of(dtype), context);
  }
};

namespace saccade {

// Calls f.template operator()<T>() with the C++ type T of `dtype`, which must be one of T, Rest...; `tag`
// names the caller in the error.
template <class T, class... Rest, class F>
decltype(auto) dispatch_dtype(DType dtype, std::string_view tag, F&& f) {
  if constexpr (sizeof...(Rest) > 0) {
    if (dtype != dtype_of<T>) return dispatch_dtype<Rest...>(dtype, tag, f);
  } else {
    SACCADE_CHECK(dtype == dtype_of<T>, "[{}] does not take {}", tag, dtype);
  }
  return f.template operator()<T>();
}
template <class F>
decltype(auto) dispatch_float(DType dtype, std::string_view tag, F&& f) {
  return dispatch_dtype<float, bf16, double>(dtype, tag, f);
}
template <class F>
decltype(auto) dispatch_any(DType dtype, std::string_view tag, F&& f) {
  return dispatch_dtype<float, bf16, double, int32_t, int64_t, uint8_t, bool>(dtype, tag, f);
}

}  // namespace saccade
