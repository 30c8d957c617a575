#include "core/tensor/dtype.h"

namespace saccade {

size_t size_of(DType dtype) {
  return dispatch_any(dtype, "size_of", []<class T>() { return sizeof(T); });
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

DType widest(DType a, DType b) {
  auto rank = [](DType d) { return d == DType::kF64 ? 2 : d == DType::kF32 ? 1 : 0; };
  return rank(a) >= rank(b) ? a : b;
}

}  // namespace saccade
