// Do convolutions stay within their memory, oneDNN's scratch memory included? The allocator puts guard bytes
// behind every block and ends the program when they have changed.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>

#include "core/kernels/conv2d/conv2d.h"
#include "core/tensor/allocator.h"

namespace saccade {
namespace {

void convolve(int64_t in, int64_t out, int64_t size, int64_t window, int64_t stride, DType dtype) {
  SCOPED_TRACE(testing::Message() << in << " to " << out << " channels, window " << window << ", stride "
                                  << stride);
  const kernels::ConvParams p{.stride = stride, .padding = window / 2};
  const int64_t side = kernels::conv_output_size(size, window, p);
  Tensor x = Tensor::full({1, size, size, in}, 0.5, dtype),
         w = Tensor::full({out, in, window, window}, 0.25, dtype);
  Tensor y = Tensor::empty({1, side, side, out}, dtype), dx = Tensor::empty(x.shape(), dtype);
  Tensor dw = Tensor::empty(w.shape(), DType::kF32);
  kernels::conv2d_forward(x, w, Tensor(), p, Activation::kNone, y);
  kernels::conv2d_backward_data(y, w, p, dx);
  kernels::conv2d_backward_weight(Tensor::full(y.shape(), 1, dtype), x, p, dw);
  if (window == 1) {
    EXPECT_EQ(dw.to_vector<float>(),
              std::vector<float>(static_cast<size_t>(in * out), static_cast<float>(side * side) / 2));
  }
}

// Strided 1x1 convolutions of few channels are those whose weight gradient oneDNN computes beyond its scratch
// memory.
TEST(Conv2dMemory, StaysWithinItsBlocks) {
  const int before = omp_get_max_threads();
  allocator(Device::kCpu).trim();
  allocator(Device::kCpu).set_debug({.guard = true});
  omp_set_num_threads(2);
  for (int64_t in : {1, 7, 15, 16})
    for (int64_t out : {1, 17})
      for (auto [size, window, stride] : {std::array{16, 1, 2}, {56, 1, 4}, {9, 3, 2}})
        for (DType dtype : {DType::kF32, DType::kBF16}) convolve(in, out, size, window, stride, dtype);
  omp_set_num_threads(before);
  allocator(Device::kCpu).set_debug({});
}

}  // namespace
}  // namespace saccade
