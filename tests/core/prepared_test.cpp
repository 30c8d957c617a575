// Weights that are prepared once give the same bits as when they are prepared for each call, are prepared
// again when they change, and are freed when they are no longer kept.
#include "core/tensor/prepared.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "core/kernels/conv2d/conv2d.h"
#include "core/kernels/linear/linear.h"
#include "core/tensor/allocator.h"
#include "tests/normal_tensor.h"

namespace saccade {
namespace {

struct PreparedCase {
  const char* name;
  Tensor w;
  std::function<Tensor(const Tensor& w)> run;
};

PreparedCase prepared_conv(const char* name, const Shape& x, const Shape& w, const kernels::ConvParams& p) {
  return {name, normal_tensor(w, 1), [input = normal_tensor(x, 2), p](const Tensor& taps) {
            const int64_t h = kernels::conv_output_size(input.dim(1), taps.dim(2), p);
            const int64_t v = kernels::conv_output_size(input.dim(2), taps.dim(3), p);
            Tensor y = Tensor::empty({input.dim(0), h, v, taps.dim(0)});
            kernels::conv2d_forward(input, taps, {}, p, Activation::kRelu, y);
            return y;
          }};
}

// Winograd's algorithm by blocks, by spans of tiles and with stride 2; oneDNN's convolution; products.
std::vector<PreparedCase> prepared_cases() {
  std::vector<PreparedCase> all{
      prepared_conv("blocks", {1, 80, 80, 64}, {64, 64, 3, 3}, {.padding = 1}),
      prepared_conv("spans", {1, 16, 16, 128}, {144, 128, 3, 3}, {.padding = 1}),
      prepared_conv("stride 2", {1, 64, 64, 64}, {64, 64, 3, 3}, {.stride = 2, .padding = 1}),
      prepared_conv("plain", {1, 40, 40, 3}, {32, 3, 3, 3}, {.stride = 2, .padding = 1})};
  all.push_back({"linear", normal_tensor({96, 64}, 1), [x = normal_tensor({700, 64}, 2)](const Tensor& w) {
                   Tensor y = Tensor::empty({x.dim(0), w.dim(0)});
                   kernels::linear_forward(x, w, {}, Activation::kNone, y);
                   return y;
                 }});
  return all;
}

std::vector<float> bits_in(const Tensor& t) { return t.to_vector<float>(); }

int64_t active_memory() { return allocator(Device::kCpu).stats().active_bytes; }

TEST(Prepared, SameBitsAndRenewed) {
  for (const PreparedCase& c : prepared_cases()) {
    Tensor w = c.w.clone();
    const std::vector<float> before = bits_in(c.run(w));
    keep_forms(w);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(bits_in(c.run(w)), before) << c.name;
    w.copy_from(normal_tensor(w.shape(), 3));
    EXPECT_EQ(bits_in(c.run(w)), bits_in(c.run(w.clone()))) << c.name;
    EXPECT_NE(bits_in(c.run(w)), before) << c.name;
  }
}

TEST(Prepared, FreedAndNotMadeTwice) {
  for (const PreparedCase& c : prepared_cases()) {
    Tensor w = c.w.clone();
    c.run(w);
    const int64_t before = active_memory();
    keep_forms(w);
    c.run(w);
    const int64_t kept = active_memory();
    c.run(w);
    EXPECT_EQ(active_memory(), kept) << c.name;
    w.bump_version();
    c.run(w);
    EXPECT_EQ(active_memory(), kept) << c.name;
    drop_forms(w);
    EXPECT_EQ(active_memory(), before) << c.name;
    c.run(w);
    EXPECT_EQ(active_memory(), before) << c.name;
  }
  EXPECT_FALSE(keeps_forms(normal_tensor({4}, 1)));
}

// Several weights may be in one storage.
TEST(Prepared, TellsPartsOfAStorageApart) {
  for (const PreparedCase& c : prepared_cases()) {
    Shape two = c.w.shape();
    two[0] *= 2;
    Tensor both = normal_tensor(two, 4);
    keep_forms(both);
    for (int64_t i = 0; i < 2; ++i) {
      const Tensor part = both.slice(0, i * c.w.dim(0), (i + 1) * c.w.dim(0));
      EXPECT_EQ(bits_in(c.run(part)), bits_in(c.run(part.clone()))) << c.name;
    }
  }
}

TEST(Prepared, ManyThreadsShareThem) {
  for (const PreparedCase& c : prepared_cases()) {
    const std::vector<float> expected = bits_in(c.run(c.w));
    Tensor w = c.w.clone();
    keep_forms(w);
    std::vector<std::vector<float>> found(4);
    std::vector<std::thread> threads;
    for (auto& of_thread : found) threads.emplace_back([&] { of_thread = bits_in(c.run(w)); });
    for (std::thread& t : threads) t.join();
    for (const auto& of_thread : found) EXPECT_EQ(of_thread, expected) << c.name;
  }
}

}  // namespace
}  // namespace saccade
