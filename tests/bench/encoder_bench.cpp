// Times one encoder layer (d 256, 8 heads, FFN 1024, 4 levels, 4 points) over four image sizes, forward and
// backward, batch 1: `encoder_bench [repeats]`. Deformable attention makes the time per token a constant.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "autograd/engine.h"
#include "core/tensor/philox.h"
#include "models/common/transformer.h"

namespace saccade {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Tensor normal(const Shape& shape, Rng& rng) {
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
  return t;
}

void bench(int64_t side, int repeats) {
  TransformerOptions options{.dim = 256,
                             .heads = 8,
                             .ffn_dim = 1024,
                             .encoder_layers = 6,
                             .decoder_layers = 6,
                             .levels = 4,
                             .encoder_points = 4,
                             .decoder_points = 4};
  TransformerEncoderLayer layer(options, "ms_deform_attn");
  layer.initialize(1);
  layer.set_training(true);

  TokenMaps maps;
  int64_t tokens = 0, levels = options.levels;
  for (int64_t stride = 8; stride <= 64; stride *= 2) {
    maps.levels.push_back({side / stride, side / stride});
    tokens += (side / stride) * (side / stride);
  }
  maps.reference_points = Tensor::empty({1, tokens, levels, 2});
  float* r = maps.reference_points.data<float>();
  for (auto [height, width] : maps.levels)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t level = 0; level < levels; ++level) {
          *r++ = (static_cast<float>(x) + 0.5f) / static_cast<float>(width);
          *r++ = (static_cast<float>(y) + 0.5f) / static_cast<float>(height);
        }
  Rng rng(2);
  Shape shape{1, tokens, options.dim};
  Var x(normal(shape, rng)), position(normal(shape, rng));
  x.set_requires_grad(true);
  Tensor cotangent = normal(shape, rng);

  std::vector<double> forward, both;
  for (int i = 0; i <= repeats; ++i) {
    auto start = std::chrono::steady_clock::now();
    Var y = layer.forward(x, position, maps);
    double middle = milliseconds_since(start);
    backward(y, cotangent);
    double end = milliseconds_since(start);
    x.clear_grad();
    for (NamedTensor& p : layer.parameters()) p.var.clear_grad();
    if (i == 0) continue;  // the first run allocates
    forward.push_back(middle);
    both.push_back(end);
  }
  double best = *std::min_element(both.begin(), both.end());
  fmt::print(
      "{:4} x {:<4} {:>7} tokens   forward {:8.2f} ms   forward + backward {:8.2f} ms (best {:.2f}, {:.2f} "
      "us a token)\n",
      side, side, tokens, median(forward), median(both), best, 1e3 * best / static_cast<double>(tokens));
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
  for (int64_t side : {256, 512, 768, 1024}) saccade::bench(side, std::max(repeats, 1));
}
