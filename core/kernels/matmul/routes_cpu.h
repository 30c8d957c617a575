// Which algorithm a product or a convolution takes on the CPU: the only place that decides it.
// docs/performance.md has the table, and tests/bench/routes_bench.cpp measures what it rests on.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernels/conv2d/conv2d.h"

namespace saccade::cpu {

enum class Pass : uint8_t { kForward, kBackwardData, kBackwardWeight };

enum class ProductRoute : uint8_t {
  kOneDnn,  // core/runtime/cpu/onednn.h
  kPacked,  // packed_gemm_cpu.h: bits that do not depend on the number of threads
};
// Of a product [m, k] [k, n] of factors of this type, as a pass of a linear layer: of the gradient of its
// weights m and n are its outputs and inputs, k is the number of rows.
ProductRoute product_route(Pass pass, DType type, int64_t m, int64_t n, int64_t k);

enum class ConvRoute : uint8_t {
  kOneDnn,     // plain sums
  kPacked,     // plain sums as well (packed_conv_cpu.h)
  kWinograd3,  // these three: winograd_cpu.h
  kWinograd4,
  kWinogradStrided,
  kGathered,  // 1x1: a product of the positions that it reads
};
// Of a convolution that is no product over the pixels: x [N, H, W, C], w [O, C / groups, R, S],
// y [N, OH, OW, O]; x and y may be their gradients.
ConvRoute conv_route(Pass pass, const Tensor& x, const Tensor& w, const Tensor& y,
                     const kernels::ConvParams& p);

// Whether bf16 has to be widened for oneDNN, which computes in it with AVX-512 only.
bool widens_bf16();

// For measurements and tests: the route of all that can take it.
struct RouteDebug {
  std::optional<ProductRoute> product;
  std::optional<ConvRoute> conv;
};
inline RouteDebug& route_debug() {
  static RouteDebug debug;
  return debug;
}

}  // namespace saccade::cpu
