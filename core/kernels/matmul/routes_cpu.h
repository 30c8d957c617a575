// Chooses the algorithm of a product or a convolution on the CPU; no other code does. docs/performance.md has
// the table, and tests/bench/routes_bench.cpp measures the data on which it is based.
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
// The route of a product [m, k] [k, n] of factors of this type, as a pass of a linear layer: for the gradient
// of its weights, m and n are its outputs and inputs, and k is the number of rows.
ProductRoute product_route(Pass pass, DType type, int64_t m, int64_t n, int64_t k);

enum class ConvRoute : uint8_t {
  kOneDnn,     // plain sums
  kPacked,     // plain sums too (packed_conv_cpu.h)
  kWinograd3,  // these three: winograd_cpu.h
  kWinograd4,
  kWinogradStrided,
  kGathered,  // 1x1: a product over the positions that it reads
};
// The route of a convolution that is not a product over the pixels: x [N, H, W, C], w [O, C / groups, R, S],
// y [N, OH, OW, O]; x and y may be their gradients.
ConvRoute conv_route(Pass pass, const Tensor& x, const Tensor& w, const Tensor& y,
                     const kernels::ConvParams& p);

// Returns whether bf16 must be widened for oneDNN, which only computes in it with AVX-512.
bool widens_bf16();

// For measurements and tests: forces a route wherever it is supported.
struct RouteDebug {
  std::optional<ProductRoute> product;
  std::optional<ConvRoute> conv;
};
inline RouteDebug& route_debug() {
  static RouteDebug debug;
  return debug;
}

}  // namespace saccade::cpu
