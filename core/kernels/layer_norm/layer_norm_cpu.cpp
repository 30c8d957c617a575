// Layer norm for the CPU: sixteen columns at a time, with a row's passes in the cache and all gradients from
// one read.
#include "core/kernels/layer_norm/layer_norm.h"

#include <cmath>

#include "core/kernels/common/column_tiles.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using cpu::Floats;
using cpu::kLanes;

// Calls f(first column, load, store) over a row; the last columns go through buffers padded with zeros.
struct Whole {
  template <class T>
  static Floats load(const T* p) {
    return cpu::load(p);
  }
  template <class T>
  static void store(T* p, Floats v) {
    cpu::store(p, v);
  }
  static Floats keep(Floats v) { return v; }
};
struct Part {
  int64_t count;
  template <class T>
  Floats load(const T* p) const {
    return cpu::load_some(p, count);
  }
  template <class T>
  void store(T* p, Floats v) const {
    cpu::store_some(p, v, count);
  }
  // Sets the columns after the last one to zero.
  Floats keep(Floats v) const {
    float buffer[kLanes];
    cpu::store(buffer, v);
    return cpu::load_some(buffer, count);
  }
};
template <class F>
inline void for_columns(int64_t columns, const F& f) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) f(c, Whole{});
  if (c < columns) f(c, Part{columns - c});
}

template <class T>
void forward_rows(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                  float eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd) {
  int64_t columns = x.dim(1);
  const T *px = x.data<T>(), *pr = data_or_null<T>(residual);
  T *py = y.data<T>(), *ps = residual.defined() ? sum.data<T>() : nullptr;
  const float *w = weight.data<float>(), *b = bias.data<float>();
  float *pm = mean.data<float>(), *pi = rstd.data<float>();
  float n = static_cast<float>(columns);
  parallel_for(x.dim(0), std::max<int64_t>(1, 16384 / (4 * columns)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* row = px + r * columns;
      Floats total{}, square{};
      if (pr) {
        const T* other = pr + r * columns;
        T* out = ps + r * columns;
        for_columns(columns, [&](int64_t c, const auto& io) {
          io.store(out + c, io.load(row + c) + io.load(other + c));
          total += io.load(out + c);
        });
        row = out;
      } else {
        for_columns(columns, [&](int64_t c, const auto& io) { total += io.load(row + c); });
      }
      float mu = cpu::sum(total) / n;
      for_columns(columns, [&](int64_t c, const auto& io) {
        Floats d = io.keep(io.load(row + c) - mu);
        square += d * d;
      });
      float inverse = 1 / std::sqrt(cpu::sum(square) / n + eps);
      T* out = py + r * columns;
      for_columns(columns, [&](int64_t c, const auto& io) {
        io.store(out + c, (io.load(row + c) - mu) * inverse * io.load(w + c) + io.load(b + c));
      });
      pm[r] = mu;
      pi[r] = inverse;
    }
  });
}

template <class T>
void backward_rows(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                   const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  int64_t rows = x.dim(0), columns = x.dim(1), blocks = tile_rows(rows);
  bool affine = dweight.defined() || dbias.defined();
  Tensor partial = affine ? Tensor::zeros({2, blocks * columns}) : Tensor();
  float* weight_sums = affine ? partial.data<float>() : nullptr;
  float* bias_sums = affine ? weight_sums + blocks * columns : nullptr;
  const T *pd = dy.data<T>(), *px = x.data<T>();
  const float *w = weight.data<float>(), *pm = mean.data<float>(), *pi = rstd.data<float>();
  T* out = data_or_null<T>(dx);
  float n = static_cast<float>(columns);
  auto row = [&](int64_t r, float* sw, float* sb) {
    const T *d = pd + r * columns, *v = px + r * columns;
    float mu = pm[r], inverse = pi[r];
    Floats a{}, b{};
    for_columns(columns, [&](int64_t c, const auto& io) {
      Floats g = io.load(d + c), xh = (io.load(v + c) - mu) * inverse;
      if (sw) {
        io.store(sw + c, io.load(sw + c) + g * xh);
        io.store(sb + c, io.load(sb + c) + g);
      }
      g *= io.load(w + c);
      a += g;
      b += g * xh;
    });
    if (!out) return;
    float constant = -inverse * (cpu::sum(a) / n), factor = -inverse * inverse * (cpu::sum(b) / n);
    T* o = out + r * columns;
    for_columns(columns, [&](int64_t c, const auto& io) {
      io.store(o + c, io.load(d + c) * io.load(w + c) * inverse + (io.load(v + c) - mu) * factor + constant);
    });
  };
  parallel_for(blocks, std::max<int64_t>(1, 16384 / (4 * kTileRows * columns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) {
                   int64_t last = std::min((block + 1) * kTileRows, rows);
                   for (int64_t r = block * kTileRows; r < last; ++r)
                     row(r, affine ? weight_sums + block * columns : nullptr,
                         affine ? bias_sums + block * columns : nullptr);
                 }
               });
  if (dweight.defined()) sum_partials(weight_sums, dweight.data<float>(), 1, blocks, columns);
  if (dbias.defined()) sum_partials(bias_sums, dbias.data<float>(), 1, blocks, columns);
}

void forward_cpu(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                 double eps, Tensor& y, Tensor& sum, Tensor& mean, Tensor& rstd) {
  dispatch_dtype<float, bf16>(x.dtype(), "layer_norm", [&]<class T>() {
    forward_rows<T>(x, residual, weight, bias, static_cast<float>(eps), y, sum, mean, rstd);
  });
}

void backward_cpu(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                  const Tensor& rstd, Tensor& dx, Tensor& dweight, Tensor& dbias) {
  dispatch_dtype<float, bf16>(x.dtype(), "layer_norm", [&]<class T>() {
    backward_rows<T>(dy, x, weight, mean, rstd, dx, dweight, dbias);
  });
}

SACCADE_REGISTER_TUNED_KERNEL(layer_norm_forward, Device::kCpu, &forward_cpu, &takes_f32_or_bf16);
SACCADE_REGISTER_TUNED_KERNEL(layer_norm_backward, Device::kCpu, &backward_cpu, &takes_f32_or_bf16);

}  // namespace
}  // namespace saccade::kernels
