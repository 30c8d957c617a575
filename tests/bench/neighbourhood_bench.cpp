// Times neighbourhood attention, the op with its graph as a model runs it: `neighbourhood_bench [repeats]
// [bf16]`. Prints one line per shape, in ms, for the stages of DAT-T++ at 224 pixels with 8 images.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "autograd/engine.h"
#include "autograd/ops.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

double median_of(int repeats, const std::function<void()>& f) {
  std::vector<double> times;
  for (int i = 0; i < repeats + 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    if (i > 1) times.push_back(ms.count());
  }
  std::ranges::nth_element(times, times.begin() + repeats / 2);
  return times[static_cast<size_t>(repeats / 2)];
}

void bench(const char* name, int64_t side, int64_t heads, int repeats) {
  constexpr int64_t kImages = 8, kHeadChannels = 32;
  Rng rng(1);
  auto normal = [&](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.normal());
    return t.to(execution().compute);
  };
  const int64_t C = heads * kHeadChannels;
  Var qkv(normal({kImages, side, side, 3 * C}), true), table(normal({heads, 13, 13}).to(DType::kF32), true);
  const Tensor dy = normal({kImages, side, side, C});
  auto run = [&] { return neighbourhood_attention(qkv, table, {}, {.heads = heads}); };
  const double forward = median_of(repeats, [&] {
    NoGrad no_grad;
    run();
  });
  const double both = median_of(repeats, [&] {
    backward(run(), dy);
    qkv.clear_grad();
    table.clear_grad();
  });
  fmt::print("{}: saccade {}: forward {:.2f} ms, sum {:.2f} ms\n", name, name_of(execution().compute),
             forward, both);
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 21;
  saccade::ExecutionScope scope;
  if (argc > 2 && std::string_view(argv[2]) == "bf16") saccade::execution().compute = saccade::DType::kBF16;
  saccade::bench("stage 1", 56, 2, repeats);
  saccade::bench("stage 2", 28, 4, repeats);
  saccade::bench("stage 3", 14, 8, repeats);
}
