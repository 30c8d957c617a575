// Times the engines that cuDNN's heuristic names for a convolution on the GPU, in its order; the backend
// takes the first without timing any: `gpu_conv_bench [tiny]`, where `tiny` takes one small shape, to try the
// program on the emulated GPU. Prints one line per problem of ResNet-50 at 800 x 1066 in bf16, four images:
// microseconds, the median of five rounds of ten calls, and the engine's number and knobs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/kernels/conv2d/conv2d_cuda_plan.h"
#include "core/tensor/device.h"
#include "core/tensor/philox.h"
#include "tests/bench/gpu_timing.h"

namespace saccade {
namespace {

using cuda::ConvPass;
using cuda::ConvProblem;

constexpr size_t kEngines = 8;

struct Shape2d {
  int64_t N, H, W, C, O, R, stride;
};

Tensor noise(const Shape& shape) {
  Rng rng(1);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  return t.to(DType::kBF16).to(Device::kCuda);
}

void bench(const Shape2d& s, ConvPass pass, bool fused) {
  ConvProblem q{.pass = pass, .dtype = DType::kBF16, .math = MathMode::kExact, .N = s.N, .H = s.H, .W = s.W};
  q.C = s.C, q.O = s.O, q.R = q.S = s.R;
  q.p = {.stride = s.stride, .padding = s.R / 2};
  q.OH = kernels::conv_output_size(q.H, q.R, q.p), q.OW = kernels::conv_output_size(q.W, q.S, q.p);
  q.bias = q.relu = fused;
  const Tensor x = noise({q.N, q.H, q.W, q.C}), w = noise({q.O, q.R, q.S, q.C}), bias = noise({q.O}),
               y = noise({q.N, q.OH, q.OW, q.O});
  cuda::ConvPlanner planner;
  std::vector<std::string> cells;
  for (const cuda::ConvChoice& choice : planner.choices(q, kEngines)) {
    std::vector<int64_t> knobs;
    for (auto [type, value] : choice.engine.knobs) knobs.push_back(value);
    const double us = median_of(5, 10, [&] {
      choice.plan.run({x.raw(), w.raw(), y.raw(), fused ? bias.raw() : nullptr, nullptr});
    });
    cells.push_back(fmt::format("{:.0f} ({}:{})", us, choice.engine.index, fmt::join(knobs, ",")));
  }
  const char* passes[] = {"forward", "data", "weight"};
  fmt::print("{}{} [{}, {}, {}, {}] to {}, {}x{}, stride {}: {}\n", passes[static_cast<int>(pass)],
             fused ? ", bias, relu" : "", s.N, s.H, s.W, s.C, s.O, s.R, s.R, s.stride,
             fmt::join(cells, "  "));
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  using namespace saccade;
  if (const std::string problem = cuda_problem(); !problem.empty()) {
    fmt::print(stderr, "error: {}\n", problem);
    return 2;
  }
  std::vector<Shape2d> shapes{
      {4, 800, 1066, 3, 64, 7, 2},   {4, 200, 267, 64, 64, 3, 1},   {4, 200, 267, 128, 128, 3, 2},
      {4, 100, 134, 128, 128, 3, 1}, {4, 100, 134, 256, 256, 3, 2}, {4, 50, 67, 256, 256, 3, 1},
      {4, 50, 67, 512, 512, 3, 2},   {4, 25, 34, 512, 512, 3, 1},   {32, 160, 160, 64, 64, 3, 1},
      {32, 80, 80, 128, 128, 3, 1},  {1, 80, 80, 128, 128, 3, 1},   {32, 640, 640, 3, 32, 3, 2},
      {32, 640, 640, 8, 32, 3, 2},   {4, 800, 1066, 8, 64, 7, 2}};
  if (argc > 1 && std::string_view(argv[1]) == "tiny") shapes = {{1, 8, 8, 16, 16, 3, 1}};
  for (const Shape2d& s : shapes) {
    bench(s, ConvPass::kForward, false);
    bench(s, ConvPass::kForward, true);
    if (s.C > 3) bench(s, ConvPass::kData, false);
    bench(s, ConvPass::kWeight, false);
  }
  return 0;
}
