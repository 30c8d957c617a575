#include "core/kernels/matmul/routes_cpu.h"

#include <algorithm>

#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/conv2d/conv2d_as_product.h"
#include "core/runtime/cpu/onednn.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"

namespace saccade::cpu {
namespace {

bool suits_winograd(const Tensor& w, const kernels::ConvParams& p) {
  // The last vector of the output channels may be partly empty if that is at most a quarter of all channels:
  // 9 x 91 for a RetinaNet's classes, 9 x 4 for its boxes.
  const bool filled = 4 * w.dim(0) >= 3 * round_up(w.dim(0), kLanes);
  return w.dim(2) == 3 && w.dim(3) == 3 && p.padding == 1 && p.dilation == 1 && p.groups == 1 && filled &&
         w.dim(1) % kLanes == 0;
}

// oneDNN's registers are twice as wide as ours: a program for x86-64-v3 on a processor with AVX-512.
bool ours_are_narrow() { return onednn::has_avx512() && !kWideRegisters; }

// Returns whether F(3x3, 3x3) and F(4x4, 3x3) pay.
bool same_pays(int64_t positions, const Tensor& w) {
  // With few channels the transforms take longer than the products.
  if (onednn::has_avx512() && std::min(w.dim(0), w.dim(1)) < 32) return false;
  return positions >= (ours_are_narrow() ? 1024 : 64);
}

// Returns whether F(4, 2) pays for a convolution of stride 2 with this many output positions.
bool strided_pays(Pass pass, int64_t positions, const Tensor& w) {
  const int64_t channels = w.dim(0) * w.dim(1);
  if (ours_are_narrow() || std::min(w.dim(0), w.dim(1)) < 64) return false;
  const bool weights = pass == Pass::kBackwardWeight;
  if (onednn::has_avx512()) return positions >= 256 && (weights || channels <= 128 * 256);
  return positions >= (weights ? 1600 : 400);
}

}  // namespace

bool widens_bf16() { return !onednn::has_avx512(); }

ProductRoute product_route(Pass pass, DType type, int64_t m, int64_t n, int64_t k) {
  if (route_debug().product) return *route_debug().product;
  if (!onednn::has_avx512()) return ProductRoute::kPacked;
  // oneDNN's sgemm takes up to twice as long for sums over a few hundred rows.
  const bool few = k <= 1400 && std::max(m, n) <= 1024 && m * n >= 128 * 128;
  const bool packed = pass == Pass::kBackwardWeight && type == DType::kF32 && kWideRegisters && few;
  return packed ? ProductRoute::kPacked : ProductRoute::kOneDnn;
}

ConvRoute conv_route(Pass pass, const Tensor& x, const Tensor& w, const Tensor& y,
                     const kernels::ConvParams& p) {
  if (route_debug().conv) return *route_debug().conv;
  const bool avx512 = onednn::has_avx512(), f32 = y.dtype() == DType::kF32;
  if (avx512 && !f32) return ConvRoute::kOneDnn;  // with bf16 instructions
  // The number of images is ignored, so that it changes no bits.
  const int64_t positions = y.dim(1) * y.dim(2);
  // Used if the tiles are well filled and the taps' transform pays; it adds nothing significant to the
  // rounding of bf16.
  if (suits_winograd(w, p)) {
    if (p.stride == 2 && strided_pays(pass, positions, w)) return ConvRoute::kWinogradStrided;
    const bool exact = execution().math == MathMode::kExact && f32;
    const int64_t tile = exact ? 3 : 4, tiled = round_up(y.dim(1), tile) * round_up(y.dim(2), tile);
    if (p.stride == 1 && same_pays(positions, w) && tiled <= 2 * positions)
      return exact ? ConvRoute::kWinograd3 : ConvRoute::kWinograd4;
  }
  // With few channels the copy takes longer than the product saves.
  const bool gathers = pass == Pass::kBackwardData || w.dim(1) >= 256;
  if (avx512 && gathers && kernels::is_strided_product(w.shape(), p)) return ConvRoute::kGathered;
  if (avx512 || p.groups != 1) return ConvRoute::kOneDnn;
  // Windows of few channels are short pieces, which oneDNN reads better, and it is as fast on smaller maps.
  if (pass == Pass::kBackwardWeight) return x.dim(3) >= kLanes ? ConvRoute::kPacked : ConvRoute::kOneDnn;
  if (pass == Pass::kBackwardData && p.stride != 1) return ConvRoute::kOneDnn;
  const Tensor &read = pass == Pass::kForward ? x : y, &result = pass == Pass::kForward ? y : x;
  const bool large = result.dim(1) * result.dim(2) >= 4096 && result.dim(3) >= 64;
  return large && read.dim(3) >= kLanes ? ConvRoute::kPacked : ConvRoute::kOneDnn;
}

}  // namespace saccade::cpu
