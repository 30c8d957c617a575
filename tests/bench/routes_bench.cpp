// Times every route of a product or convolution on the CPU, which core/kernels/matmul/routes_cpu.cpp is based
// on:
//   routes_bench [--only conv|product] [--precision f32|bf16] [--threads 2] [--seconds 0.15]
// prints a line for each size and pass: the billions of multiply-adds of plain sums, then for each route the
// best time in ms.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/linear/linear.h"
#include "core/kernels/matmul/routes_cpu.h"
#include "core/runtime/parallel.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

using cpu::ConvRoute;
using cpu::ProductRoute;

double g_seconds = 0.15;
DType g_type = DType::kF32;

// Returns the best time of each in ms. They take turns, since a machine's clock rate changes every second.
std::string best_times(const std::vector<std::pair<const char*, std::function<void()>>>& all) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> best(all.size(), 1e30);
  const auto begin = Clock::now();
  auto since = [](Clock::time_point t) {
    return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
  };
  for (int round = 0; round < 4 || since(begin) < g_seconds * 1e3; ++round)
    for (size_t i = 0; i < all.size(); ++i) {
      const auto start = Clock::now();
      all[i].second();
      if (round > 0) best[i] = std::min(best[i], since(start));
    }
  std::string line;
  for (size_t i = 0; i < all.size(); ++i) line += fmt::format("  {} {:8.3f}", all[i].first, best[i]);
  return line;
}

Tensor random_tensor(const Shape& shape, uint64_t seed, DType type = g_type) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  return t.to(type);
}

struct ConvSize {
  int64_t images, height, width, in, out, window, stride;
};

void bench_conv(const ConvSize& s) {
  const kernels::ConvParams p{.stride = s.stride, .padding = s.window / 2};
  const Tensor x = random_tensor({s.images, s.height, s.width, s.in}, 1),
               w = random_tensor({s.out, s.in, s.window, s.window}, 2);
  Tensor y = random_tensor({s.images, kernels::conv_output_size(s.height, s.window, p),
                            kernels::conv_output_size(s.width, s.window, p), s.out},
                           3);
  Tensor dx = x.empty_like(), dw = Tensor::empty(w.shape()), out = y.empty_like();
  const double work = static_cast<double>(y.numel() * s.in * s.window * s.window) * 1e-9;
  const char* names[] = {"forward", "data", "weights"};
  const std::function<void()> passes[] = {
      [&] { kernels::conv2d_forward(x, w, {}, p, Activation::kNone, out); },
      [&] { kernels::conv2d_backward_data(y, w, p, dx); },
      [&] { kernels::conv2d_backward_weight(y, x, p, dw); }};
  const bool winograd = s.window == 3 && s.in % 16 == 0;
  for (int pass = 0; pass < 3; ++pass) {
    const std::string line =
        fmt::format("conv {}x{}x{} {:>4} {:>4} {}x{}/{} {:<8} {:7.3f} G", s.images, s.height, s.width, s.in,
                    s.out, s.window, s.window, s.stride, names[pass], work);
    std::vector<std::pair<const char*, std::function<void()>>> all;
    auto add = [&](const char* name, ConvRoute route) {
      all.emplace_back(name, [&run = passes[pass], route] {
        cpu::route_debug().conv = route;
        run();
        cpu::route_debug().conv = {};
      });
    };
    add("onednn", ConvRoute::kOneDnn);
    if (pass != 1 || s.stride == 1) add("packed", ConvRoute::kPacked);
    if (winograd && s.stride == 1) {
      add("f33", ConvRoute::kWinograd3);
      add("f43", ConvRoute::kWinograd4);
    }
    if (winograd && s.stride == 2) add("f42", ConvRoute::kWinogradStrided);
    if (s.window == 1 && s.stride > 1) add("gathered", ConvRoute::kGathered);
    all.emplace_back("chosen", passes[pass]);
    std::puts((line + best_times(all)).c_str());
    std::fflush(stdout);
  }
}

void bench_product(int64_t rows, int64_t k, int64_t n) {
  const Tensor x = random_tensor({rows, k}, 1), w = random_tensor({n, k}, 2),
               dy = random_tensor({rows, n}, 3), bias = random_tensor({n}, 4, DType::kF32);
  Tensor y = dy.empty_like(), dx = x.empty_like(), dw = Tensor::empty(w.shape());
  const char* names[] = {"forward", "data", "weights"};
  const std::function<void()> passes[] = {[&] { kernels::linear_forward(x, w, bias, Activation::kNone, y); },
                                          [&] { kernels::linear_backward_data(dy, w, dx); },
                                          [&] { kernels::linear_backward_weight(dy, x, dw); }};
  for (int pass = 0; pass < 3; ++pass) {
    const std::string line = fmt::format("product {:>6} {:>5} {:>5} {:<8} {:7.3f} G", rows, k, n, names[pass],
                                         static_cast<double>(rows * k * n) * 1e-9);
    std::vector<std::pair<const char*, std::function<void()>>> all;
    for (auto [name, route] : {std::pair{"onednn", ProductRoute::kOneDnn}, {"packed", ProductRoute::kPacked}})
      all.emplace_back(name, [&run = passes[pass], to = route] {
        cpu::route_debug().product = to;
        run();
        cpu::route_debug().product = {};
      });
    all.emplace_back("chosen", passes[pass]);
    std::puts((line + best_times(all)).c_str());
    std::fflush(stdout);
  }
}

int main_of(int argc, char** argv) {
  CLI::App app;
  std::string only, precision = "f32";
  int threads = 2;
  app.add_option("--only", only);
  app.add_option("--precision", precision);
  app.add_option("--threads", threads);
  app.add_option("--seconds", g_seconds);
  CLI11_PARSE(app, argc, argv);
  set_thread_count(threads);
  g_type = precision == "bf16" ? DType::kBF16 : DType::kF32;
  if (only != "product") {
    // ResNets and RT-DETR at 640 pixels, Deformable DETR at 800 x 1066, the quick start at 160 to 256.
    for (const ConvSize& s : std::initializer_list<ConvSize>{
             {1, 160, 160, 64, 64, 3, 1},  {2, 160, 160, 64, 64, 3, 1},  {1, 320, 320, 32, 32, 3, 1},
             {1, 320, 320, 32, 64, 3, 1},  {1, 80, 80, 128, 128, 3, 1},  {2, 80, 80, 128, 128, 3, 1},
             {1, 40, 40, 256, 256, 3, 1},  {2, 40, 40, 256, 256, 3, 1},  {1, 20, 20, 512, 512, 3, 1},
             {2, 20, 20, 512, 512, 3, 1},  {1, 20, 20, 128, 128, 3, 1},  {1, 25, 34, 512, 512, 3, 1},
             {1, 200, 267, 64, 64, 3, 1},  {4, 64, 64, 32, 32, 3, 1},    {4, 32, 32, 64, 64, 3, 1},
             {4, 16, 16, 128, 128, 3, 1},  {4, 8, 8, 128, 128, 3, 1},    {1, 10, 10, 128, 128, 3, 1},
             {2, 160, 160, 64, 128, 3, 2}, {1, 160, 160, 64, 128, 3, 2}, {2, 80, 80, 128, 256, 3, 2},
             {1, 80, 80, 128, 256, 3, 2},  {2, 40, 40, 256, 512, 3, 2},  {1, 40, 40, 256, 512, 3, 2},
             {4, 32, 32, 64, 128, 3, 2},   {2, 640, 640, 3, 32, 3, 2},   {4, 256, 256, 3, 32, 7, 2},
             {2, 160, 160, 64, 128, 1, 2}, {2, 80, 107, 256, 512, 1, 2}, {2, 20, 27, 1024, 2048, 1, 2},
             {2, 40, 54, 256, 36, 3, 1}})
      bench_conv(s);
  }
  if (only != "conv") {
    for (auto [rows, k, n] : std::initializer_list<std::array<int64_t, 3>>{
             {5440, 128, 128},  {5440, 128, 512},   {5440, 512, 128},  {1360, 128, 256}, {300, 256, 256},
             {300, 256, 1024},  {400, 256, 1024},   {600, 1024, 256},  {25600, 64, 256}, {25600, 256, 64},
             {12800, 128, 128}, {6400, 256, 256},   {1600, 512, 512},  {25088, 96, 288}, {25088, 384, 96},
             {6272, 192, 768},  {1568, 384, 1536},  {1568, 1536, 384}, {392, 768, 3072}, {577, 384, 1536},
             {1156, 1536, 384}, {17821, 256, 1024}, {17821, 256, 256}, {53400, 256, 64}, {3400, 1024, 256},
             {850, 2048, 512},  {200, 128, 4}})
      bench_product(rows, k, n);
  }
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) { return saccade::main_of(argc, argv); }
