#include "core/tensor/dtype.h"

namespace saccade {

size_t size_of(DType dtype) {
  return dispatch_any(dtype, "size_of", []<class T>() { return sizeof(T); });
}

std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f64", "i32", "i64", "u8", "bool"};
  return kNames[static_cast<size_t>(dtype)];
}

DType widest(DType a, DType b) {
  auto rank = [](DType d) { return d == DType::kF64 ? 2 : d == DType::kF32 ? 1 : 0; };
  return rank(a) >= rank(b) ? a : b;
}

}  // namespace saccade
