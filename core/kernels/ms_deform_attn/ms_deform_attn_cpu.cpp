// Deformable attention for f32 and bf16 values, sixteen floats at a time. It is fast for these reasons:
//   - the maps of one head are first copied to be contiguous ([S, D] without gaps): 128-byte rows a kilobyte
//     apart use an eighth of the cache sets, and a page holds only four of them;
//   - positions, weights and masks are computed as vectors over the points of a query, and corners outside
//     the map become weight 0 at a cell inside, so the inner loops have no branches;
//   - backward needs four dot products per point: those of four points are summed across lanes together;
//   - backward gives a head of an image to one thread with a private gradient map: no atomics, and the sums
//     keep the order of the queries for any number of threads.
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"

#include "core/kernels/ms_deform_attn/ms_deform_attn_cpu_points.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

// A head's maps: row s starts at data + s * stride and holds whole vectors.
template <class T>
struct Map {
  T* data;
  int64_t stride;
};

// Copies rows [begin, end) of head m of an image, packed: [S, padded D], zeros after D. In f32, so that bf16
// values are converted once instead of at each access.
template <class T>
void pack_rows(const T* image, int64_t begin, int64_t end, int64_t M, int64_t m, int64_t D, int64_t Dp,
               float* out) {
  for (int64_t s = begin; s < end; ++s) {
    const T* from = image + (s * M + m) * D;
    float* to = out + s * Dp;
    for (int64_t d = 0; d < D; d += kLanes) store(to + d, load_some(from + d, D - d));
  }
}

// kVectors = padded D / 16, or 0 for any number of vectors.
template <class T, int kVectors>
struct DeformWorker {
  // Independent sums in forward hide the latency of the multiply-add, as far as registers allow.
  static constexpr int kSums = kWideRegisters ? 4 : 2;
  static constexpr int kRegisters = std::max(kVectors, 1);

  const Inputs& in;
  const PointTable& table;
  int64_t Dp;
  LaneVector<float> attention, sampled, wide;

  DeformWorker(const Inputs& inputs, const PointTable& points)
      : in(inputs),
        table(points),
        Dp(round_up(inputs.D, kLanes)),
        attention(static_cast<size_t>(points.padded)),
        sampled(static_cast<size_t>(points.padded)),
        wide(static_cast<size_t>(Dp)) {}

  // Computes one query and head into y[D].
  template <class V>
  void forward(const Map<const V>& map, int64_t row, T* y) {
    softmax(in.logits + row * in.K, in.K, table.padded, attention.data());
    Floats acc[kSums][kRegisters] = {};
    if constexpr (kVectors == 0) std::fill(wide.begin(), wide.end(), 0.0f);
    for (int64_t j0 = 0; j0 < in.K; j0 += kLanes) {
      Chunk chunk = locate(in, table, row, j0);
      Floats weights = load(attention.data() + j0);
      alignas(64) float w[4][kLanes];
      alignas(64) int32_t cell[4][kLanes];
      for (int c = 0; c < 4; ++c) {
        store(w[c], chunk.weight[c] * weights);
        store(cell[c], chunk.cell[c]);
      }
      int64_t count = std::min<int64_t>(kLanes, in.K - j0);
      for (int64_t j = 0; j < count; ++j) {
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
          const V* v = map.data + cell[c][j] * map.stride;
          Floats f = broadcast(w[c][j]);
          if constexpr (kVectors > 0) {
#pragma GCC unroll 4
            for (int i = 0; i < kVectors; ++i) acc[c % kSums][i] += f * load(v + i * kLanes);
          } else {
            for (int64_t d = 0; d < Dp; d += kLanes)
              store(wide.data() + d, load(wide.data() + d) + f * load(v + d));
          }
        }
      }
    }
    if constexpr (kVectors > 0) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        Floats sum = kSums == 4 ? (acc[0][i] + acc[1][i]) + (acc[2 % kSums][i] + acc[3 % kSums][i])
                                : acc[0][i] + acc[1][i];
        store_some(y + i * kLanes, sum, in.D - i * kLanes);
      }
    } else {
      for (int64_t d = 0; d < in.D; d += kLanes) store_some(y + d, load(wide.data() + d), in.D - d);
    }
  }

  // The backward of one query and head. dmap.data, doffsets, dlogits and dreference [L, R] may be null.
  template <class V>
  void backward(const Map<const V>& map, const Map<float>& dmap, int64_t row, const T* dy, float* doffsets,
                float* dlogits, float* dreference) {
    softmax(in.logits + row * in.K, in.K, table.padded, attention.data());
    Floats g[kRegisters];
    if constexpr (kVectors > 0) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) g[i] = load_some(dy + i * kLanes, in.D - i * kLanes);
    } else {
      for (int64_t d = 0; d < Dp; d += kLanes) store(wide.data() + d, load_some(dy + d, in.D - d));
    }
    bool samples = doffsets || dlogits || dreference;
    if (dreference) std::fill_n(dreference, in.L * in.R, 0.0f);
    Floats delta{};
    for (int64_t j0 = 0; j0 < in.K; j0 += kLanes) {
      Chunk chunk = locate(in, table, row, j0);
      Floats weights = load(attention.data() + j0);
      alignas(64) float w[4][kLanes];
      alignas(64) int32_t cell[4][kLanes];
      alignas(64) float dots[4][kLanes] = {};
      for (int c = 0; c < 4; ++c) {
        store(w[c], chunk.weight[c] * weights);
        store(cell[c], chunk.cell[c]);
      }
      int64_t count = std::min<int64_t>(kLanes, in.K - j0);
      for (int64_t j = 0; j < count; j += 4) {
        if (samples) gather(map, g, cell, j, dots);
        if (dmap.data) scatter(dmap, g, cell, w, j, std::min<int64_t>(j + 4, count));
      }
      if (samples) finish(chunk, weights, dots, j0, count, delta, doffsets, dreference);
    }
    if (!dlogits) return;
    float total = sum(delta);
    for (int64_t j = 0; j < in.K; j += kLanes) {
      Floats d = load(attention.data() + j) * (load(sampled.data() + j) - total);
      store_some(dlogits + j, d, in.K - j);
    }
  }

 private:
  // dots[c][j..j+3] = dy . corner c of the point
  template <class V>
  inline void gather(const Map<const V>& map, const Floats* g, const int32_t (&cell)[4][kLanes], int64_t j,
                     float (&dots)[4][kLanes]) {
    Floats part[kLanes];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const V* v = map.data + cell[c][j + p] * map.stride;
        Floats s;
        if constexpr (kVectors > 0) {
          s = g[0] * load(v);
#pragma GCC unroll 4
          for (int i = 1; i < kVectors; ++i) s += g[i] * load(v + i * kLanes);
        } else {
          s = Floats{};
          for (int64_t d = 0; d < Dp; d += kLanes) s += load(wide.data() + d) * load(v + d);
        }
        part[c * 4 + p] = s;
      }
    }
    alignas(64) float all[kLanes];
    store(all, sums(part));
    for (int c = 0; c < 4; ++c) std::memcpy(&dots[c][j], all + c * 4, 4 * sizeof(float));
  }

  inline void scatter(const Map<float>& dmap, const Floats* g, const int32_t (&cell)[4][kLanes],
                      const float (&w)[4][kLanes], int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
        float* v = dmap.data + cell[c][j] * dmap.stride;
        Floats f = broadcast(w[c][j]);
        if constexpr (kVectors > 0) {
#pragma GCC unroll 4
          for (int i = 0; i < kVectors; ++i) store(v + i * kLanes, load(v + i * kLanes) + f * g[i]);
        } else {
          for (int64_t d = 0; d < Dp; d += kLanes) store(v + d, load(v + d) + f * load(wide.data() + d));
        }
      }
    }
  }

  // Computes the gradients of a chunk's points from its dot products.
  inline void finish(const Chunk& chunk, Floats weights, const float (&dots)[4][kLanes], int64_t j0,
                     int64_t count, Floats& delta, float* doffsets, float* dreference) {
    Floats d[4];
    for (int c = 0; c < 4; ++c) d[c] = select(chunk.inside[c], load(dots[c]), Floats{});
    Floats value =
        (chunk.weight[0] * d[0] + chunk.weight[1] * d[1]) + (chunk.weight[2] * d[2] + chunk.weight[3] * d[3]);
    delta += weights * value;
    store(sampled.data() + j0, value);
    // The gradients with respect to the pixel position; weights are 0 after the last point.
    Floats gx = weights * ((1.0f - chunk.fy) * (d[1] - d[0]) + chunk.fy * (d[3] - d[2]));
    Floats gy = weights * ((1.0f - chunk.fx) * (d[2] - d[0]) + chunk.fx * (d[3] - d[1]));
    if (doffsets) {
      Floats ox = gx * chunk.step_x, oy = gy * chunk.step_y;
      Floats a = interleave_low(ox, oy);
      Floats b = interleave_high(ox, oy);
      if (count == kLanes) {
        store(doffsets + 2 * j0, a);
        store(doffsets + 2 * j0 + kLanes, b);
      } else {
        alignas(64) float buffer[2 * kLanes];
        store(buffer, a);
        store(buffer + kLanes, b);
        std::memcpy(doffsets + 2 * j0, buffer, static_cast<size_t>(count) * 2 * sizeof(float));
      }
    }
    if (dreference) {
      Floats width = load(table.width.data() + j0), height = load(table.height.data() + j0);
      alignas(64) float part[4][kLanes];
      float half = 0.5f / static_cast<float>(in.P);
      store(part[0], gx * width);
      store(part[1], gy * height);
      store(part[2], gx * width * chunk.offset_x * half);
      store(part[3], gy * height * chunk.offset_y * half);
      for (int64_t j = 0; j < count; ++j)
        for (int r = 0; r < in.R; ++r)
          dreference[table.level[static_cast<size_t>(j0 + j)] * in.R + r] += part[r][j];
    }
  }
};

// Returns whether copying the maps of a head is cheaper than reading them with gaps. Depends only on shapes.
bool worth_packing(const Inputs& in) { return in.D % kLanes != 0 || in.Q * in.K * 2 > in.S; }

template <class T, int kVectors>
void forward_typed(const Inputs& in, const Tensor& value, const FeatureLevels& levels, Tensor& y) {
  PointTable table(levels, in.P);
  int64_t Dp = round_up(in.D, kLanes), cost = in.K * Dp / 2;
  bool packing = worth_packing(in);
  Tensor packed = packing ? Tensor::empty({in.M, in.S, Dp}) : Tensor();
  for (int64_t n = 0; n < in.N; ++n) {
    const T* image = value.data<T>() + n * in.S * in.M * in.D;
    if (packing) {
      float* out = packed.data<float>();
      parallel_for(in.S, std::max<int64_t>(1, 16384 / (in.M * Dp)), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; b += 64)
          for (int64_t m = 0; m < in.M; ++m)
            pack_rows(image, b, std::min(b + 64, end), in.M, m, in.D, Dp, out + m * in.S * Dp);
      });
    }
    parallel_for(in.M * in.Q, std::max<int64_t>(1, 8192 / cost), [&](int64_t begin, int64_t end) {
      DeformWorker<T, kVectors> worker(in, table);
      for (int64_t i = begin; i < end; ++i) {
        int64_t m = i / in.Q, row = (n * in.Q + i % in.Q) * in.M + m;
        T* out = y.data<T>() + row * in.D;
        if (packing) {
          worker.forward(Map<const float>{packed.data<float>() + m * in.S * Dp, Dp}, row, out);
        } else {
          worker.forward(Map<const T>{image + m * in.D, in.M * in.D}, row, out);
        }
      }
    });
  }
}

template <class T, int kVectors>
void backward_typed(const Inputs& in, const Tensor& value, const FeatureLevels& levels, const Tensor& dy,
                    Tensor& dvalue, Tensor& dreference, Tensor& doffsets, Tensor& dlogits) {
  PointTable table(levels, in.P);
  int64_t Dp = round_up(in.D, kLanes), LR = in.L * in.R;
  bool packing = worth_packing(in), private_map = packing || !std::is_same_v<T, float>;
  bool samples = dreference.defined() || doffsets.defined() || dlogits.defined();
  Tensor per_head = dreference.defined() ? Tensor::empty({in.N, in.M, in.Q, LR}) : Tensor();
  parallel_for(in.N * in.M, std::max<int64_t>(1, 8192 / (in.Q * in.K * Dp + 1)),
               [&](int64_t begin, int64_t end) {
                 DeformWorker<T, kVectors> worker(in, table);
                 Tensor packed = packing && samples ? Tensor::empty({in.S, Dp}) : Tensor();
                 Tensor summed = dvalue.defined() && private_map ? Tensor::empty({in.S, Dp}) : Tensor();
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t n = i / in.M, m = i % in.M;
                   const T* image = value.data<T>() + n * in.S * in.M * in.D;
                   if (packed.defined()) pack_rows(image, 0, in.S, in.M, m, in.D, Dp, packed.data<float>());
                   Map<float> dmap{nullptr, Dp};
                   if (summed.defined()) {
                     dmap.data = summed.data<float>();
                     std::memset(dmap.data, 0, summed.bytes());
                   } else if (dvalue.defined()) {
                     if constexpr (std::is_same_v<T, float>) {
                       dmap = {dvalue.data<float>() + (n * in.S * in.M + m) * in.D, in.M * in.D};
                       for (int64_t s = 0; s < in.S; ++s)
                         std::fill_n(dmap.data + s * dmap.stride, in.D, 0.0f);
                     }
                   }
                   for (int64_t q = 0; q < in.Q; ++q) {
                     int64_t row = (n * in.Q + q) * in.M + m;
                     auto run = [&](const auto& map) {
                       worker.backward(map, dmap, row, dy.data<T>() + row * in.D,
                                       data_or_null<float>(doffsets, row * in.K * 2),
                                       data_or_null<float>(dlogits, row * in.K),
                                       data_or_null<float>(per_head, (i * in.Q + q) * LR));
                     };
                     if (packed.defined()) {
                       run(Map<const float>{packed.data<float>(), Dp});
                     } else {
                       run(Map<const T>{image + m * in.D, in.M * in.D});
                     }
                   }
                   if (!summed.defined()) continue;
                   T* out = dvalue.data<T>() + (n * in.S * in.M + m) * in.D;
                   for (int64_t s = 0; s < in.S; ++s) {
                     const float* from = dmap.data + s * Dp;
                     T* to = out + s * in.M * in.D;
                     for (int64_t d = 0; d < in.D; d += kLanes) store_some(to + d, load(from + d), in.D - d);
                   }
                 }
               });
  if (!dreference.defined()) return;
  float* out = dreference.data<float>();
  const float* parts = per_head.data<float>();
  parallel_for(in.N * in.Q, std::max<int64_t>(1, 16384 / (LR * in.M)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t r = 0; r < LR; ++r) {
        float total = 0;
        for (int64_t m = 0; m < in.M; ++m) total += parts[((i / in.Q * in.M + m) * in.Q + i % in.Q) * LR + r];
        out[i * LR + r] = total;
      }
    }
  });
}

// Calls f.operator()<T, kVectors>() for the value dtype and head size.
template <class F>
void dispatch(DType dtype, int64_t D, F&& f) {
  dispatch_dtype<float, bf16>(dtype, "ms_deform_attn", [&]<class T>() {
    switch (round_up(D, kLanes)) {
      case 16:
        return f.template operator()<T, 1>();
      case 32:
        return f.template operator()<T, 2>();
      case 64:
        return f.template operator()<T, 4>();
      default:
        return f.template operator()<T, 0>();
    }
  });
}

void forward_cpu(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                 const FeatureLevels& levels, Tensor& y) {
  Inputs in = inputs_of(value.dim(3), reference, offsets, logits, levels);
  dispatch(value.dtype(), in.D,
           [&]<class T, int kVectors>() { forward_typed<T, kVectors>(in, value, levels, y); });
}

void backward_cpu(const Tensor& value, const Tensor& reference, const Tensor& offsets, const Tensor& logits,
                  const FeatureLevels& levels, const Tensor& dy, Tensor& dvalue, Tensor& dreference,
                  Tensor& doffsets, Tensor& dlogits) {
  Inputs in = inputs_of(value.dim(3), reference, offsets, logits, levels);
  dispatch(value.dtype(), in.D, [&]<class T, int kVectors>() {
    backward_typed<T, kVectors>(in, value, levels, dy, dvalue, dreference, doffsets, dlogits);
  });
}

// `result` is y or dy.
template <class... A>
bool supported(const Tensor& value, const Tensor&, const Tensor&, const Tensor&, const FeatureLevels&,
               const Tensor& result, const A&...) {
  return takes_f32_or_bf16(value) && result.numel() > 0;
}

SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_forward, Device::kCpu, &forward_cpu, &supported);
SACCADE_REGISTER_TUNED_KERNEL(ms_deform_attn_backward, Device::kCpu, &backward_cpu, &supported);

}  // namespace
}  // namespace saccade::kernels
