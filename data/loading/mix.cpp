#include "data/loading/mix.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {
namespace {

// Draws the logarithm of a number from Gamma(alpha, 1) (Marsaglia and Tsang, 2000; below 1 from alpha + 1).
// Draws for a small alpha may underflow a double; their logarithms do not.
double draw_log_gamma(double alpha, Rng& rng) {
  if (alpha < 1) return draw_log_gamma(alpha + 1, rng) + std::log(1 - rng.uniform()) / alpha;
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x = rng.normal(), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    if (std::log(1 - rng.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

// own / 65536 of a and the rest of b: integers give the same bytes however the compiler contracts code.
uint8_t blend_bytes(int32_t a, int32_t b, int32_t own) {
  return static_cast<uint8_t>((a * own + b * (65536 - own) + 32768) >> 16);
}

}  // namespace

double draw_beta(double alpha, Rng& rng) {
  double a = draw_log_gamma(alpha, rng), b = draw_log_gamma(alpha, rng);
  return 1 / (1 + std::exp(b - a));
}

void check_mix_options(const MixOptions& o) {
  auto require = [](bool ok, const char* what) { SACCADE_CHECK(ok, "[mix] {}", what); };
  for (double p : {o.probability, o.cutmix_probability})
    require(p >= 0 && p <= 1, "a probability must be in [0, 1]");
  for (double a : {o.mixup_alpha, o.cutmix_alpha})
    require(a >= 0 && std::isfinite(a), "an alpha must be at least 0");
}

void mix_batch(Batch& batch, const MixOptions& o, Rng& rng) {
  batch.lambda = 1;
  if (!o.on() || rng.uniform() >= o.probability) return;
  const int64_t N = batch.images.dim(0), H = batch.images.dim(1), W = batch.images.dim(2);
  check_filled(batch, "mix_batch");
  bool cut = o.mixup_alpha <= 0 || (o.cutmix_alpha > 0 && rng.uniform() < o.cutmix_probability);
  double lambda = draw_beta(cut ? o.cutmix_alpha : o.mixup_alpha, rng);
  uint8_t* pixels = batch.images.data<uint8_t>();
  auto image = [&](int64_t n) { return pixels + n * H * W * 3; };
  if (cut) {
    double side = std::sqrt(1 - lambda);
    auto height = static_cast<int64_t>(static_cast<double>(H) * side),
         width = static_cast<int64_t>(static_cast<double>(W) * side);
    int64_t y = rng.below(H), x = rng.below(W);
    int64_t top = std::max<int64_t>(y - height / 2, 0), bottom = std::min(y + height / 2, H);
    int64_t left = std::max<int64_t>(x - width / 2, 0), right = std::min(x + width / 2, W);
    for (int64_t n = 0; n < N / 2; ++n)
      for (int64_t row = top; row < bottom; ++row) {
        uint8_t *a = image(n) + row * W * 3, *b = image(N - 1 - n) + row * W * 3;
        std::swap_ranges(a + left * 3, a + right * 3, b + left * 3);
      }
    batch.lambda = 1 - static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(H * W);
    return;
  }
  const auto own = static_cast<int32_t>(std::lround(lambda * 65536));
  for (int64_t n = 0; n < N / 2; ++n) {
    uint8_t *a = image(n), *b = image(N - 1 - n);
    for (int64_t i = 0; i < H * W * 3; ++i) {
      int32_t p = a[i], q = b[i];
      a[i] = blend_bytes(p, q, own);
      b[i] = blend_bytes(q, p, own);
    }
  }
  batch.lambda = own / 65536.0;
}

void mix_up_objects(Batch& batch, double share) {
  const int64_t N = batch.images.dim(0), size = batch.images.numel() / std::max<int64_t>(N, 1);
  if (N < 2) return;
  check_filled(batch, "mix_up_objects");
  const auto own = static_cast<int32_t>(std::lround(share * 65536));
  uint8_t* pixels = batch.images.data<uint8_t>();
  const std::vector<uint8_t> last(pixels + (N - 1) * size, pixels + N * size);
  const Target last_target = batch.targets.back();
  for (int64_t n = N - 1; n >= 0; --n) {
    uint8_t* a = pixels + n * size;
    const uint8_t* b = n > 0 ? a - size : last.data();
    for (int64_t i = 0; i < size; ++i) a[i] = blend_bytes(a[i], b[i], own);
    Target& target = batch.targets[static_cast<size_t>(n)];
    const Target& other = n > 0 ? batch.targets[static_cast<size_t>(n - 1)] : last_target;
    target.instances.insert(target.instances.end(), other.instances.begin(), other.instances.end());
  }
}

void check_filled(const Batch& batch, const char* who) {
  const int64_t H = batch.images.dim(1), W = batch.images.dim(2);
  for (const Target& t : batch.targets)
    SACCADE_CHECK(t.height == H && t.width == W,
                  "[{}] {} has {} x {} pixels in a batch of {} x {}, expected no padding", who, t.file_name,
                  t.width, t.height, W, H);
}

}  // namespace saccade
