// A thread owns a pack of 16 bytes of channels, so neighbouring threads read neighbouring addresses, and
// threadIdx.y iterates over pixels. The windows of the block's channels are in shared memory, transposed to
// [R, S, channels] and as f32, because every pixel reads all of them.
#include "core/kernels/conv2d/conv2d_cuda_kernels.h"

#include "core/runtime/cuda/block.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kStrip = 4;      // neighbouring outputs of a thread, which share most of their inputs
constexpr int kBlocks = 1024;  // the maximum; a block that takes more pixels loads its windows once for all
constexpr int64_t kMaxTaps = 256;
constexpr size_t kMaxShared = 48 << 10;
constexpr int kMaxSlots = 64;  // pixel slots per block: the most threads along z

// A convolution that reads `in` pixels and writes `out` pixels of the same C channels.
struct Sizes {
  int in_h, in_w, out_h, out_w, C, R, S, stride, padding_h, padding_w, dilation;
};

// The division of the channels: blockDim.x packs in each of `tiles` blocks.
struct ChannelTiles {
  int packs, tiles;
  size_t shared;

  ChannelTiles(int64_t channels, int width, int64_t taps) {
    int64_t all = ceil_div(channels, width);
    int64_t most = width == 1 ? kWarp : kWarp / 2;
    most = std::max<int64_t>(
        1, std::min<int64_t>(most, static_cast<int64_t>(kMaxShared / sizeof(float)) / (taps * width)));
    tiles = static_cast<int>(ceil_div(all, most));
    packs = static_cast<int>(ceil_div(all, tiles));
    shared = static_cast<size_t>(taps * packs * width) * sizeof(float);
  }
  // For kernels whose threads along y take turns with the items.
  LaunchSize launch_size(int64_t items) const {
    const int64_t blocks = std::min(ceil_div(items, kThreads / packs), ceil_div(kBlocks, tiles));
    return {{blocks, tiles}, {packs, kThreads / packs}, shared};
  }
};

// Calls f<size>() for windows that have specialised kernels if `known`, and otherwise f<kOther>().
template <int kOther, class F>
void dispatch_window(int size, bool known, const F& f) {
  if (known && size == 3) return f.template operator()<3>();
  if (known && size == 5) return f.template operator()<5>();
  if (known && size == 7) return f.template operator()<7>();
  if (known && size == 9) return f.template operator()<9>();
  f.template operator()<kOther>();
}

// Loads the windows of the block's channels; `flip` rotates them by 180 degrees.
template <int V, class T>
__device__ __forceinline__ void load_windows(const T* w, int C, int taps, bool flip, float* windows) {
  int channels = static_cast<int>(blockDim.x) * V, first = static_cast<int>(blockIdx.y) * channels;
  int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int i = thread; i < taps * channels; i += static_cast<int>(blockDim.x * blockDim.y)) {
    int c = first + i % channels, tap = i / channels;
    windows[i] =
        c < C ? static_cast<float>(w[static_cast<int64_t>(c) * taps + (flip ? taps - 1 - tap : tap)]) : 0;
  }
  __syncthreads();
}

// The weights of a pack of channels for one tap.
template <int V>
struct Weights {
  float x[V];
};
template <int V>
__device__ __forceinline__ Weights<V> load_weights(const float* p) {
  constexpr int kWidth = V < 4 ? V : 4;
  Weights<V> w;
#pragma unroll
  for (int j = 0; j < V; j += kWidth) {
    Pack<float, kWidth> part = load_pack<kWidth>(p + j);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) w.x[j + i] = part.x[i];
  }
  return w;
}

template <int V, class T>
__device__ __forceinline__ void add_product(const Pack<T, V>& x, const Weights<V>& w, float* sum) {
#pragma unroll
  for (int j = 0; j < V; ++j) sum[j] += static_cast<float>(x.x[j]) * w.x[j];
}

// With kWindow > 0 the window is kWindow x kWindow, and stride and dilation are 1: every thread writes strips
// of kStrip outputs of one row and reads each input of its strip once for all of them. Otherwise a strip is
// one output, since the outputs of large strides are few.
template <int kWindow>
constexpr int kStripOf = kWindow > 0 ? kStrip : 1;

template <class T, int V, int kWindow>
__global__ void __launch_bounds__(kThreads)
    depthwise_convolve(Sizes z, unsigned strips, const T* x, const T* w, bool flip, const float* bias,
                       bool relu, T* y) {
  SACCADE_DYNAMIC_SHARED(float, windows);
  int R = kWindow > 0 ? kWindow : z.R, S = kWindow > 0 ? kWindow : z.S;
  load_windows<V>(w, z.C, R * S, flip, windows);
  int channels = static_cast<int>(blockDim.x) * V;
  int c = (static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x)) * V;
  if (c >= z.C) return;
  const float* mine = windows + threadIdx.x * V;
  constexpr int kOutputs = kStripOf<kWindow>;
  unsigned in_row = static_cast<unsigned>(z.out_w + kOutputs - 1) / kOutputs;
  for (unsigned strip = blockIdx.x * blockDim.y + threadIdx.y; strip < strips;
       strip += gridDim.x * blockDim.y) {
    int first = static_cast<int>(strip % in_row) * kOutputs;
    unsigned row = strip / in_row;
    int oh = static_cast<int>(row % static_cast<unsigned>(z.out_h));
    int64_t n = row / static_cast<unsigned>(z.out_h);
    float sum[kOutputs][V] = {};
    for (int r = 0; r < R; ++r) {
      int h = oh * z.stride - z.padding_h + r * z.dilation;
      if (h < 0 || h >= z.in_h) continue;
      const T* px = x + (n * z.in_h + h) * z.in_w * z.C + c;
      const float* pw = mine + r * S * channels;
      if constexpr (kWindow > 0) {
        Weights<V> weights[kWindow];
#pragma unroll
        for (int s = 0; s < kWindow; ++s) weights[s] = load_weights<V>(pw + s * channels);
#pragma unroll
        for (int k = 0; k < kOutputs + kWindow - 1; ++k) {
          int v = first - z.padding_w + k;
          if (v < 0 || v >= z.in_w) continue;
          Pack<T, V> value = load_pack<V>(px + static_cast<int64_t>(v) * z.C);
#pragma unroll
          for (int t = 0; t < kOutputs; ++t) {
            if (k - t >= 0 && k - t < kWindow) add_product(value, weights[k - t], sum[t]);
          }
        }
      } else {
        for (int s = 0; s < S; ++s) {
          Weights<V> weights = load_weights<V>(pw + s * channels);
#pragma unroll
          for (int t = 0; t < kOutputs; ++t) {
            int v = (first + t) * z.stride - z.padding_w + s * z.dilation;
            if (v >= 0 && v < z.in_w)
              add_product(load_pack<V>(px + static_cast<int64_t>(v) * z.C), weights, sum[t]);
          }
        }
      }
    }
    T* py = y + ((n * z.out_h + oh) * z.out_w + first) * z.C + c;
#pragma unroll
    for (int t = 0; t < kOutputs; ++t) {
      if (first + t >= z.out_w) break;
      Pack<T, V> out;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        float value = sum[t][j] + (bias ? bias[c + j] : 0.0f);
        out.x[j] = static_cast<T>(relu && value < 0 ? 0.0f : value);
      }
      store_pack(py + static_cast<int64_t>(t) * z.C, out);
    }
  }
}

// The data gradient for strides above 1: every input gathers from the outputs that read it, which is one per
// stride * stride pixels of the window. z.in_* are the outputs' sizes, z.out_* the inputs'.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    depthwise_gather(Sizes z, unsigned pixels, const T* dy, const T* w, T* dx) {
  SACCADE_DYNAMIC_SHARED(float, windows);
  load_windows<V>(w, z.C, z.R * z.S, false, windows);
  int channels = static_cast<int>(blockDim.x) * V;
  int c = (static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x)) * V;
  if (c >= z.C) return;
  const float* mine = windows + threadIdx.x * V;
  int step = z.dilation == 1 ? z.stride : 1;  // with dilation 1 it is known which taps can match an output
  for (unsigned pixel = blockIdx.x * blockDim.y + threadIdx.y; pixel < pixels;
       pixel += gridDim.x * blockDim.y) {
    int v = static_cast<int>(pixel % static_cast<unsigned>(z.out_w));
    unsigned row = pixel / static_cast<unsigned>(z.out_w);
    int h = static_cast<int>(row % static_cast<unsigned>(z.out_h));
    int64_t n = row / static_cast<unsigned>(z.out_h);
    float sum[V] = {};
    for (int r = (h + z.padding_h) % step; r < z.R; r += step) {
      int top = h + z.padding_h - r * z.dilation, oh = top / z.stride;
      if (top < 0) break;
      if (oh * z.stride != top || oh >= z.in_h) continue;
      for (int s = (v + z.padding_w) % step; s < z.S; s += step) {
        int left = v + z.padding_w - s * z.dilation, ow = left / z.stride;
        if (left < 0) break;
        if (ow * z.stride != left || ow >= z.in_w) continue;
        const T* pd = dy + ((n * z.in_h + oh) * z.in_w + ow) * z.C + c;
        add_product(load_pack<V>(pd), load_weights<V>(mine + (r * z.S + s) * channels), sum);
      }
    }
    Pack<T, V> out;
#pragma unroll
    for (int j = 0; j < V; ++j) out.x[j] = static_cast<T>(sum[j]);
    store_pack(dx + (n * z.out_h + h) * z.out_w * z.C + static_cast<int64_t>(v) * z.C + c, out);
  }
}

// Sums of one chunk of output pixels: parts [chunk, R, S, C]. threadIdx.y is a group of kTaps neighbours in a
// row of the window, whose sums are kept in registers; the threads of one z take every blockDim.z-th pixel
// and are added up in the order of z. z.in_* are x's sizes, z.out_* dy's.
template <class T, int V, int kTaps>
__global__ void __launch_bounds__(kThreads)
    depthwise_weight_parts(Sizes z, int pixels, int chunk, const T* dy, const T* x, float* parts) {
  SACCADE_DYNAMIC_SHARED(float, shared);
  int in_row = z.S / kTaps, group = static_cast<int>(blockIdx.z * blockDim.y + threadIdx.y);
  int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * V;
  int r = group / in_row, s = group % in_row * kTaps;
  bool active = r < z.R && c < z.C;
  float sum[kTaps][V] = {};
  if (active) {
    int begin = static_cast<int>(blockIdx.x) * chunk, end = std::min(begin + chunk, pixels);
    int pixel = begin + static_cast<int>(threadIdx.z);
    int ow = pixel % z.out_w, oh = pixel / z.out_w % z.out_h, n = pixel / z.out_w / z.out_h;
    for (; pixel < end; pixel += static_cast<int>(blockDim.z)) {
      int h = oh * z.stride - z.padding_h + r * z.dilation;
      if (h >= 0 && h < z.in_h) {
        Pack<T, V> d = load_pack<V>(dy + static_cast<int64_t>(pixel) * z.C + c);
        const T* px = x + (static_cast<int64_t>(n) * z.in_h + h) * z.in_w * z.C + c;
        int left = ow * z.stride - z.padding_w + s * z.dilation;
#pragma unroll
        for (int k = 0; k < kTaps; ++k) {
          int v = left + k * z.dilation;
          if (v < 0 || v >= z.in_w) continue;
          Pack<T, V> value = load_pack<V>(px + static_cast<int64_t>(v) * z.C);
#pragma unroll
          for (int j = 0; j < V; ++j)
            sum[k][j] += static_cast<float>(d.x[j]) * static_cast<float>(value.x[j]);
        }
      }
      ow += static_cast<int>(blockDim.z);
      while (ow >= z.out_w) {
        ow -= z.out_w;
        if (++oh == z.out_h) oh = 0, ++n;
      }
    }
  }
  int place = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x),
      places = static_cast<int>(blockDim.x * blockDim.y);
  for (unsigned slot = 1; slot < blockDim.z; ++slot) {
    if (threadIdx.z == slot) {
#pragma unroll
      for (int i = 0; i < kTaps * V; ++i) shared[i * places + place] = sum[i / V][i % V];
    }
    __syncthreads();
    if (threadIdx.z == 0) {
#pragma unroll
      for (int i = 0; i < kTaps * V; ++i) sum[i / V][i % V] += shared[i * places + place];
    }
    __syncthreads();
  }
  if (!active || threadIdx.z != 0) return;
  float* out = parts + ((static_cast<int64_t>(blockIdx.x) * z.R + r) * z.S + s) * z.C + c;
#pragma unroll
  for (int k = 0; k < kTaps; ++k) {
#pragma unroll
    for (int j = 0; j < V; ++j) out[static_cast<int64_t>(k) * z.C + j] = sum[k][j];
  }
}

constexpr int kSumRows = 16;  // threads that share the chunks of one sum

// dw [C, taps] = the sum of parts [chunks, taps, C] over the chunks. A warp reads 32 channels of one tap.
__global__ void __launch_bounds__(kWarp* kSumRows)
    depthwise_weight_sum(int C, int taps, int chunks, const float* parts, float* dw) {
  SACCADE_SHARED(float, rows, kWarp* kSumRows);
  int c = static_cast<int>(blockIdx.x * kWarp + threadIdx.x), tap = static_cast<int>(blockIdx.y);
  float sum = 0;
  if (c < C) {
    for (int k = static_cast<int>(threadIdx.y); k < chunks; k += kSumRows)
      sum += parts[(static_cast<int64_t>(k) * taps + tap) * C + c];
  }
  rows[threadIdx.y * kWarp + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= C) return;
  for (int k = 1; k < kSumRows; ++k) sum += rows[k * kWarp + static_cast<int>(threadIdx.x)];
  dw[static_cast<int64_t>(c) * taps + tap] = sum;
}

Sizes sizes(const Tensor& in, const Tensor& out, const Shape& w, const kernels::ConvParams& p) {
  auto i = [](int64_t v) { return static_cast<int>(v); };
  return {i(in.dim(1)), i(in.dim(2)), i(out.dim(1)), i(out.dim(2)), i(in.dim(3)), i(w[2]),
          i(w[3]),      i(p.stride),  i(p.padding),  i(p.padding),  i(p.dilation)};
}

void convolve(const Sizes& z, int64_t N, const Tensor& in, const Tensor& w, bool flip, const Tensor& bias,
              bool relu, Tensor& out) {
  dispatch_packs(in.dtype(), rows_fit_packs(z.C, in, out), [&]<class T, int V>() {
    ChannelTiles tiles(z.C, V, z.R * z.S);
    bool plain = z.R == z.S && z.stride == 1 && z.dilation == 1 && V > 1;
    dispatch_window<0>(z.R, plain, [&]<int kWindow>() {
      auto strips = static_cast<unsigned>(N * z.out_h * ceil_div(z.out_w, kStripOf<kWindow>));
      launch("depthwise_convolve", &depthwise_convolve<T, V, kWindow>, tiles.launch_size(strips), z, strips,
             in.data<T>(), w.data<T>(), flip, data_or_null<float>(bias), relu, out.data<T>());
    });
  });
}

}  // namespace

bool is_depthwise(const Shape& w, const kernels::ConvParams& p) {
  return p.groups > 1 && w[0] == p.groups && w[1] == 1 && w[2] * w[3] <= kMaxTaps;
}

void depthwise_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const kernels::ConvParams& p,
                       Activation act, Tensor& y) {
  convolve(sizes(x, y, w.shape(), p), x.dim(0), x, w, false, bias, act == Activation::kRelu, y);
}

void depthwise_backward_data(const Tensor& dy, const Tensor& w, const kernels::ConvParams& p, Tensor& dx) {
  Sizes z = sizes(dy, dx, w.shape(), p);
  if (p.stride == 1) {  // a convolution of dy with the windows rotated
    z.padding_h = (z.R - 1) * z.dilation - z.padding_h;
    z.padding_w = (z.S - 1) * z.dilation - z.padding_w;
    return convolve(z, dy.dim(0), dy, w, true, Tensor(), false, dx);
  }
  dispatch_packs(dy.dtype(), rows_fit_packs(z.C, dy, dx), [&]<class T, int V>() {
    ChannelTiles tiles(z.C, V, z.R * z.S);
    auto pixels = static_cast<unsigned>(dx.dim(0) * z.out_h * z.out_w);
    launch("depthwise_gather", &depthwise_gather<T, V>, tiles.launch_size(pixels), z, pixels, dy.data<T>(),
           w.data<T>(), dx.data<T>());
  });
}

void depthwise_backward_weight(const Tensor& dy, const Tensor& x, const kernels::ConvParams& p, Tensor& dw) {
  Sizes z = sizes(x, dy, dw.shape(), p);
  dispatch_packs(dy.dtype(), rows_fit_packs(z.C, dy, x), [&]<class T, int V>() {
    dispatch_window<1>(z.S, V > 1, [&]<int kTaps>() {
      int groups = z.R * (z.S / kTaps), channels = static_cast<int>(ceil_div(z.C, V));
      // Half of shared memory for one slot's sums, with one thread each.
      int most = std::min(kThreads, static_cast<int>(kMaxShared / sizeof(float)) / (kTaps * V));
      int packs = std::min(channels, std::min(most, kWarp / 2));
      int rows = std::min(groups, most / packs), slots = std::min(kThreads / (packs * rows), kMaxSlots);
      int64_t tiles = ceil_div(channels, packs), group_tiles = ceil_div(groups, rows);
      // The number of chunks depends only on the shape, and so does the order of the sums.
      int64_t pixels = dy.numel() / z.C, chunks = std::max<int64_t>(1, kBlocks / (tiles * group_tiles));
      int64_t chunk = std::max<int64_t>(ceil_div(pixels, chunks), 4 * slots);
      chunks = ceil_div(pixels, chunk);
      Tensor parts = Tensor::empty({chunks, z.R, z.S, z.C}, DType::kF32, dy.device());
      size_t shared = static_cast<size_t>(packs * rows * kTaps * V) * sizeof(float);
      launch("depthwise_weight_parts", &depthwise_weight_parts<T, V, kTaps>,
             {{chunks, tiles, group_tiles}, {packs, rows, slots}, slots > 1 ? shared : 0}, z,
             static_cast<int>(pixels), static_cast<int>(chunk), dy.data<T>(), x.data<T>(),
             parts.data<float>());
      launch("depthwise_weight_sum", &depthwise_weight_sum,
             {{ceil_div(z.C, kWarp), z.R * z.S}, {kWarp, kSumRows}}, z.C, z.R * z.S, static_cast<int>(chunks),
             static_cast<const float*>(parts.data<float>()), dw.data<float>());
    });
  });
}

}  // namespace saccade::cuda
