// Max pooling for the CPU, sixteen channels at a time: its backward, and its forward if there will be none.
#include "core/kernels/max_pool2d/max_pool2d.h"

#include <algorithm>
#include <type_traits>

#include "core/kernels/common/vector_cpu.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using cpu::Floats;
using cpu::Ints;
using cpu::kLanes;

// A NaN wins, as in the generic kernel.
Floats larger(Floats best, Floats value) {
  const Floats kept = cpu::select(value == value, best, value);
  return cpu::select(best < value, value, kept);
}

template <class T>
void forward(const Tensor& x, const PoolParams& p, Tensor& y) {
  const int64_t H = x.dim(1), W = x.dim(2), C = x.dim(3), OH = y.dim(1), OW = y.dim(2);
  const T* from = x.data<T>();
  T* to = y.data<T>();
  parallel_for(y.dim(0) * OH, std::max<int64_t>(1, 4096 / (OW * C)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t top = row % OH * p.stride - p.padding;
      const int64_t r0 = std::max<int64_t>(0, top), r1 = std::min(H, top + p.kernel);
      const T* image = from + row / OH * H * W * C;
      for (int64_t ow = 0; ow < OW; ++ow) {
        const int64_t left = ow * p.stride - p.padding;
        const int64_t s0 = std::max<int64_t>(0, left), s1 = std::min(W, left + p.kernel);
        for (int64_t c = 0; c < C; c += kLanes) {
          Floats best = cpu::load_some(image + (r0 * W + s0) * C + c, C - c);
          for (int64_t r = r0; r < r1; ++r)
            for (int64_t s = s0; s < s1; ++s)
              best = larger(best, cpu::load_some(image + (r * W + s) * C + c, C - c));
          cpu::store_some(to + (row * OW + ow) * C + c, best, C - c);
        }
      }
    }
  });
}

void forward_cpu(const Tensor& x, const PoolParams& p, Tensor& y, Tensor&) {
  dispatch_dtype<float, bf16>(x.dtype(), "max_pool2d", [&]<class T>() { forward<T>(x, p, y); });
}
bool takes_forward(const Tensor& x, const PoolParams&, const Tensor& y, const Tensor& index) {
  return takes_full_f32_or_bf16(x, y) && !index.defined();
}

// Adds to one input row the gradients from output row `oh`: element (ow, c) belongs to column ow * stride -
// padding + s if its index is base + s.
struct RowOf {
  int64_t W, C, OW, kernel, stride, padding;

  template <class T>
  void add(const T* dy, const uint8_t* index, int32_t base, float* row) const {
    for (int64_t ow = 0; ow < OW; ++ow) {
      int64_t left = ow * stride - padding;
      int64_t s0 = std::max<int64_t>(0, -left), s1 = std::min(kernel, W - left);
      const T* d = dy + ow * C;
      const uint8_t* at = index + ow * C;
      float* to = row + left * C;
      int64_t c = 0;
      for (; c + kLanes <= C; c += kLanes) {
        Floats g = cpu::load(d + c);
        Ints place = cpu::load(at + c) - base;
        for (int64_t s = s0; s < s1; ++s) {
          float* p = to + s * C + c;
          cpu::store(p, cpu::load(p) + cpu::select(place == static_cast<int32_t>(s), g, Floats{}));
        }
      }
      for (; c < C; ++c) {
        int64_t s = at[c] - base;
        if (s >= 0 && s < kernel) to[s * C + c] += static_cast<float>(d[c]);
      }
    }
  }
};

template <class T>
void backward(const Tensor& dy, const Tensor& index, const PoolParams& p, Tensor& dx) {
  int64_t H = dx.dim(1), W = dx.dim(2), C = dx.dim(3), OH = dy.dim(1), OW = dy.dim(2), size = W * C;
  const T* g = dy.data<T>();
  const uint8_t* at = index.data<uint8_t>();
  T* out = dx.data<T>();
  RowOf adder{W, C, OW, p.kernel, p.stride, p.padding};
  // One thread owns each input row and gathers from the output rows whose windows cover it.
  parallel_for(dx.dim(0) * H, std::max<int64_t>(1, 4096 / size), [&](int64_t begin, int64_t end) {
    Tensor buffer = std::is_same_v<T, float> ? Tensor() : Tensor::empty({size});
    for (int64_t i = begin; i < end; ++i) {
      int64_t n = i / H, top = i % H + p.padding;
      int64_t first = top < p.kernel ? 0 : (top - p.kernel) / p.stride + 1,
              last = std::min(top / p.stride + 1, OH);
      float* row;
      if constexpr (std::is_same_v<T, float>)
        row = out + i * size;
      else
        row = buffer.data<float>();
      std::fill_n(row, size, 0.0f);
      for (int64_t oh = first; oh < last; ++oh) {
        int64_t from = (n * OH + oh) * OW * C;
        adder.add(g + from, at + from, static_cast<int32_t>((top - oh * p.stride) * p.kernel), row);
      }
      if constexpr (!std::is_same_v<T, float>) {
        int64_t c = 0;
        for (; c + kLanes <= size; c += kLanes) cpu::store(out + i * size + c, cpu::load(row + c));
        for (; c < size; ++c) out[i * size + c] = T(row[c]);
      }
    }
  });
}

void backward_cpu(const Tensor& dy, const Tensor& index, const PoolParams& p, Tensor& dx) {
  dispatch_dtype<float, bf16>(dy.dtype(), "max_pool2d", [&]<class T>() { backward<T>(dy, index, p, dx); });
}
SACCADE_REGISTER_TUNED_KERNEL(max_pool2d_forward, Device::kCpu, &forward_cpu, &takes_forward);
SACCADE_REGISTER_TUNED_KERNEL(max_pool2d_backward, Device::kCpu, &backward_cpu, &takes_full_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
