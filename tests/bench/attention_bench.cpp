// Times scaled-dot-product attention: `attention_bench [repeats] [bf16]`. Prints one line per shape, in ms.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "core/kernels/attention/attention.h"
#include "core/runtime/parallel.h"

namespace saccade {
namespace {

double best_of(int repeats, const std::function<void()>& f) {
  double best = 1e30;
  for (int i = 0; i < repeats + 1; ++i) {
    auto start = std::chrono::steady_clock::now();
    f();
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) best = std::min(best, ms);
  }
  return best;
}

void bench(int64_t N, int64_t Q, int64_t S, int64_t heads, int64_t D, double dropout, int repeats,
           DType dtype) {
  Rng rng(1);
  auto normal = [&](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
    return t.to(dtype);
  };
  Tensor q = normal({N, Q, heads * D}), k = normal({N, S, heads * D}), v = normal({N, S, heads * D}),
         dy = normal(q.shape());
  Tensor y = q.empty_like(), log_sum = Tensor::empty({N, heads, Q}), dq = q.empty_like(), dk = k.empty_like(),
         dv = v.empty_like(), none;
  kernels::AttentionParams params{heads, 1 / std::sqrt(static_cast<double>(D)), dropout, 1, 0};
  double f = best_of(repeats, [&] { kernels::attention_forward(q, k, v, none, none, params, y, log_sum); });
  double b = best_of(repeats, [&] {
    kernels::attention_backward(q, k, v, none, none, params, log_sum, y, dy, dq, dk, dv, none);
  });
  fmt::print("N={} Q={} S={} heads={} D={} dropout={} {}: forward best {:.3f} ms, backward {:.3f} ms\n", N, Q,
             S, heads, D, dropout, name_of(dtype), f, b);
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
  auto dtype = argc > 2 && std::string_view(argv[2]) == "bf16" ? saccade::DType::kBF16 : saccade::DType::kF32;
  saccade::bench(4, 50, 50, 8, 16, 0, repeats * 10, dtype);
  saccade::bench(4, 300, 300, 8, 32, 0, repeats, dtype);
  saccade::bench(4, 300, 300, 8, 32, 0.1, repeats, dtype);
  saccade::bench(2, 1050, 1050, 8, 32, 0, repeats, dtype);
}
