// Times deformable attention on the GPU: `gpu_msda_bench [rounds] [cold] [tiny]`. Prints one line per shape,
// dtype and pass, in microseconds: the median over the rounds, the floor (every byte once at the 4.3 TB/s
// that an H200 copies), their ratio, and for backward the deterministic kernels and those with float atomics.
// A round is 20 calls and one synchronisation. `cold` overwrites 256 MB between the calls, so that inputs
// come from memory and not from the L2, and subtracts the cost of that; `tiny` takes small shapes, to try the
// program on the emulated GPU:
//   cmake --preset emulated -DSACCADE_BENCH=ON && ninja -C build-emulated gpu_msda_bench &&
//   build-emulated/gpu_msda_bench 1 tiny
// On a GPU: the same with the preset release, `build/gpu_msda_bench` and `build/gpu_msda_bench cold`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "core/tensor/device.h"
#include "core/tensor/execution.h"
#include "core/tensor/philox.h"
#include "tests/bench/gpu_timing.h"

namespace saccade {
namespace {

constexpr double kBytesPerSecond = 4.3e12;

struct Options {
  int rounds = 30;
  bool cold = false, tiny = false;
};

double time_of(const Options& options, const std::function<void()>& f) {
  int calls = options.tiny ? 1 : 20;
  if (!options.cold) return median_of(options.rounds, calls, f);
  static Tensor flush = Tensor::empty({options.tiny ? 1 << 10 : 64 << 20}, DType::kF32, Device::kCuda);
  auto overwrite = [] { flush.fill(1); };
  double both = median_of(options.rounds, calls, [&] {
    overwrite();
    f();
  });
  return both - median_of(options.rounds, calls, overwrite);
}

// With `encoder` there is a query for every cell, otherwise there are 300.
void bench(const Options& options, bool encoder, DType dtype) {
  constexpr int64_t N = 2, M = 8, D = 32, P = 4;
  FeatureLevels levels{{100, 134}, {50, 67}, {25, 34}, {13, 17}};
  if (options.tiny) levels = {{6, 9}, {3, 5}};
  int64_t L = levels.size(), S = levels.tokens(), Q = encoder ? S : options.tiny ? 5 : 300;
  Rng rng(1);
  auto normal = [&](const Shape& shape, double scale) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(scale * rng.normal());
    return t;
  };
  auto gpu = [](const Tensor& t) { return t.to(Device::kCuda); };
  Tensor value = gpu(normal({N, S, M, D}, 1).to(dtype)), offsets = gpu(normal({N, Q, M, L, P, 2}, 2));
  Tensor logits = gpu(normal({N, Q, M, L * P}, 1)), dy = gpu(normal({N, Q, M * D}, 1).to(dtype));
  Tensor reference = Tensor::empty({N, Q, L, 2});
  float* r = reference.data<float>();
  for (int64_t i = 0; i < N * Q; ++i) {
    double x = rng.uniform(), y = rng.uniform();
    if (encoder) {
      int64_t l = L - 1, cell = i % Q;
      while (cell < levels.start(l)) --l;
      cell -= levels.start(l);
      const auto [height, width] = levels[l];
      x = cell_centre(cell % width, static_cast<double>(width));
      y = cell_centre(cell / width, static_cast<double>(height));
    }
    for (int64_t l = 0; l < L; ++l) {
      *r++ = static_cast<float>(x);
      *r++ = static_cast<float>(y);
    }
  }
  reference = gpu(reference);
  Tensor y = dy.empty_like(), dvalue = value.empty_like(), doffsets = offsets.empty_like(),
         dlogits = logits.empty_like(), dreference;
  auto gathered = static_cast<size_t>(N * Q * M * L * P * 4 * D) * size_of(dtype);
  size_t inputs = std::min(value.bytes(), gathered) + reference.bytes() + offsets.bytes() + logits.bytes();
  auto line = [&](const char* pass, size_t bytes, double time) {
    double floor = static_cast<double>(bytes) / kBytesPerSecond * 1e6;
    fmt::print("{} Q={} {} {}: {:.1f} us, floor {:.1f} us, {:.1f} times it\n",
               encoder ? "encoder" : "decoder", Q, name_of(dtype), pass, time, floor, time / floor);
  };
  line("forward", inputs + y.bytes(), time_of(options, [&] {
         kernels::ms_deform_attn_forward(value, reference, offsets, logits, levels, y);
       }));
  for (bool deterministic : {true, false}) {
    execution().deterministic = deterministic;
    line(deterministic ? "backward, deterministic" : "backward, float atomics",
         inputs + dy.bytes() + dvalue.bytes() + doffsets.bytes() + dlogits.bytes(), time_of(options, [&] {
           kernels::ms_deform_attn_backward(value, reference, offsets, logits, levels, dy, dvalue, dreference,
                                            doffsets, dlogits);
         }));
  }
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  using namespace saccade;
  if (!cuda_problem().empty()) {
    fmt::print(stderr, "gpu_msda_bench: {}\n", cuda_problem());
    return 1;
  }
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "cold") {
      options.cold = true;
    } else if (word == "tiny") {
      options.tiny = true;
    } else {
      options.rounds = std::max(1, std::atoi(argv[i]));
    }
  }
  for (bool encoder : {true, false})
    for (DType dtype : {DType::kF32, DType::kBF16}) bench(options, encoder, dtype);
}
