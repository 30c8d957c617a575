// Times deformable attention at two encoder shapes: `msda_bench [repeats] [bf16]`. Prints one line per shape,
// in ms. The problem is that of scripts/bench/msda_torch.py: random values, offsets of about two cells,
// random logits.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "core/runtime/parallel.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

struct Timing {
  double median, best;
};

Timing time_of(int repeats, const std::function<void()>& f) {
  f();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    auto start = std::chrono::steady_clock::now();
    f();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

void bench(const char* name, int64_t N, std::initializer_list<std::pair<int64_t, int64_t>> sizes, int repeats,
           DType dtype) {
  constexpr int64_t M = 8, D = 32, P = 4;
  FeatureLevels levels;
  for (auto [h, w] : sizes) levels.push_back({h, w});
  int64_t L = levels.size(), S = levels.tokens();
  Rng rng(1);
  auto normal = [&](const Shape& shape, double scale) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(scale * rng.normal());
    return t;
  };
  Tensor value = normal({N, S, M, D}, 1).to(dtype), offsets = normal({N, S, M, L, P, 2}, 2);
  Tensor logits = normal({N, S, M, L * P}, 1), dy = normal({N, S, M * D}, 1).to(dtype);
  Tensor reference = Tensor::empty({N, S, L, 2});
  float* r = reference.data<float>();
  for (int64_t n = 0; n < N; ++n)
    for (const MapSize& level : levels)
      for (int64_t y = 0; y < level.height; ++y)
        for (int64_t x = 0; x < level.width; ++x)
          for (int64_t k = 0; k < L; ++k) {
            *r++ = cell_centre(x, static_cast<float>(level.width));
            *r++ = cell_centre(y, static_cast<float>(level.height));
          }
  Tensor y = dy.empty_like(), dvalue = value.empty_like(), dreference, doffsets = offsets.empty_like(),
         dlogits = logits.empty_like();
  auto forward = [&] { kernels::ms_deform_attn_forward(value, reference, offsets, logits, levels, y); };
  auto backward = [&] {
    kernels::ms_deform_attn_backward(value, reference, offsets, logits, levels, dy, dvalue, dreference,
                                     doffsets, dlogits);
  };
  Timing f = time_of(repeats, forward), b = time_of(repeats, backward);
  fmt::print(
      "{} {} threads {}: forward median {:.2f} ms (best {:.2f}), backward {:.2f} ({:.2f}), sum {:.2f} "
      "({:.2f})\n",
      name, name_of(dtype), thread_count(), f.median, f.best, b.median, b.best, f.median + b.median,
      f.best + b.best);
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
  auto dtype = argc > 2 && std::string_view(argv[2]) == "bf16" ? saccade::DType::kBF16 : saccade::DType::kF32;
  saccade::bench("small encoder B=1 Q=1360", 1, {{32, 32}, {16, 16}, {8, 8}, {4, 4}}, repeats * 5, dtype);
  saccade::bench("800px encoder B=2 Q=17821", 2, {{100, 134}, {50, 67}, {25, 34}, {13, 17}}, repeats, dtype);
}
