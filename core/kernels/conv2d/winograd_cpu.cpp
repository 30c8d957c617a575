#include "core/kernels/conv2d/winograd_cpu.h"

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/kernels/conv2d/winograd_schemes_cpu.h"
#include "core/kernels/conv2d/winograd_tiles_cpu.h"
#include "core/kernels/conv2d/winograd_weights_cpu.h"
#include "core/runtime/lru_cache.h"
#include "core/runtime/parallel.h"
#include "core/tensor/integers.h"
#include "core/tensor/prepared.h"
#include "core/tensor/tensor.h"

namespace saccade::cpu {
namespace {

using namespace winograd;

constexpr int64_t kSummed = 128;     // channels that are summed before the sums are stored
constexpr int64_t kBlock = 1 << 17;  // numbers of transformed input in a thread's cache
constexpr int64_t kMinBlock = 4 * kTileRows, kManyBlocks = 16;
constexpr int64_t kSpan = 1 << 19;  // numbers of transformed input at a time

template <class Scheme>
constexpr int64_t kRows = 288 / kSquare<Scheme>* kTileRows;  // tiles per unit of work
// result = act(map * taps [3, 3, C, O] + bias) + shift; for the gradient, the taps are rotated by 180
// degrees. Its steps are compiled once, not inlined into both ways to run them (see run_range).
template <class T, class Scheme>
struct Convolution {
  static constexpr int kPoints = Scheme::kPoints, kMatrices = Scheme::kMatrices;
  static constexpr int64_t kUnitRows = kRows<Scheme>;
  Tiles<const T> in;
  Tiles<T> out;
  const T* taps;
  const float* bias;
  bool rotated, relu;
  float shift;
  // Channels of a tile and of the result, rounded up to whole vectors.
  int64_t stride = round_up(in.C, kLanes), wide = round_up(out.C, kLanes);

  // Transforms the taps for channels [first, first + width) of the result into panels [channels of the map,
  // kPanel], the last one perhaps narrower; those of channels [from, to_channel) of the map.
  [[gnu::noinline, gnu::noclone]] void transform_taps(int64_t first, int64_t width, int64_t from,
                                                      int64_t to_channel, Points& u, int64_t place) const {
    for (int64_t k = 0; k < width; k += kLanes)
      for (int64_t c = from; c < to_channel; ++c) {
        const int64_t panel = k / kPanel * kPanel;
        float* to = u.at(0, 0) + place + panel * in.C + c * std::min(kPanel, width - panel) + (k - panel);
        transform<3, kMatrices, &Scheme::taps>(
            [&](int i, int j) {
              const int tap = rotated ? 8 - 3 * i - j : 3 * i + j;
              return load_some(taps + (tap * in.C + c) * out.C + first + k, out.C - first - k);
            },
            [&](int i, int j, Floats v) { store(to + (i * kMatrices + j) * u.distance, v); });
      }
  }

  // m = tiles [row, row + rows) of v times `width` channels of u. Rows after the last tile are multiplied
  // too, but not read.
  [[gnu::noinline, gnu::noclone]] void multiply(Points& v, int64_t row, int64_t rows, Points& u,
                                                int64_t place, int64_t width, Points& m) const {
    for (int i = 0; i < kPoints; ++i)
      for (int j = 0; j < kPoints; ++j)
        for (int64_t c = 0; c < in.C; c += kSummed) {
          const auto product = c > 0 ? &small_gemm<true> : &small_gemm<false>;
          const float* panels = u.at(Scheme::matrix(i), Scheme::matrix(j)) + place;
          for (int64_t k = 0; k < width; k += kPanel) {
            const int64_t panel = std::min(kPanel, width - k);
            product(round_up(rows, kTileRows), panel, std::min(kSummed, in.C - c),
                    v.at(i, j) + row * stride + c, stride, 1, panels + k * in.C + c * panel, panel,
                    m.at(i, j) + k, kGroup);
          }
        }
  }

  void write(int64_t tile, int64_t first, int64_t width, const float* m, int64_t distance) const {
    T* to[Scheme::kOut][Scheme::kOut];
    out.positions(tile, 0, to);
    for (int64_t k = 0; k < width; k += kLanes) {
      const int64_t left = out.C - first - k;
      const Floats b = bias ? load_some(bias + first + k, left) : Floats{};
      transform<kPoints, Scheme::kOut, &Scheme::output>(
          [&](int i, int j) { return load(m + (i * kPoints + j) * distance + k); },
          [&](int i, int j, Floats v) {
            if (!to[i][j]) return;
            v = v + b;
            if (relu) v = select(v < 0.0f, Floats{}, v);
            if (shift != 0) v += broadcast(shift);
            store_some(to[i][j] + first + k, v, left);
          });
    }
  }

  [[gnu::noinline, gnu::noclone]] void write_all(int64_t tile, int64_t count, int64_t first, int64_t width,
                                                 Points& m) const {
    for (int64_t t = 0; t < count; ++t) write(tile + t, first, width, m.at(0, 0) + t * kGroup, m.distance);
  }

  // Transforms tiles [begin, begin + count) of the map to row `row` and on of v.
  [[gnu::noinline, gnu::noclone]] void transform_input(int64_t begin, int64_t count, int64_t row,
                                                       Points& v) const {
    for (int64_t t = 0; t < count; ++t) {
      const T* positions[Scheme::kIn][Scheme::kIn];
      in.positions(begin + t, Scheme::kBorder, positions);
      transform_channels<kPoints, &Scheme::input>(positions, 0, in.C, v,
                                                  [&](int64_t c) { return (row + t) * stride + c; });
    }
  }

  // Transforms the taps for all channels of the result; those of the group from `first` are at first * in.C.
  Points transform_all_taps() const {
    Points u(kMatrices, in.C * wide);
    constexpr int64_t kChannels = 16;
    const int64_t pieces = ceil_div(in.C, kChannels), groups = ceil_div(out.C, kGroup);
    parallel_for(groups * pieces, 4, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        const int64_t first = i / pieces * kGroup, c = i % pieces * kChannels;
        transform_taps(first, std::min(kGroup, wide - first), c, std::min(c + kChannels, in.C), u,
                       first * in.C);
      }
    });
    return u;
  }

  // Each thread processes blocks of tiles from end to end, so that the intermediate data stays in its cache.
  void run_blocks(int64_t block, Points u) const {
    parallel_for(ceil_div(in.count(), block), 1, [&](int64_t from, int64_t to) {
      Points v(kPoints, block * stride), m(kPoints, block * kGroup);
      for (int64_t begin = from * block; begin < std::min(to * block, in.count()); begin += block) {
        const int64_t tiles = std::min(block, in.count() - begin);
        transform_input(begin, tiles, 0, v);
        for (int64_t first = 0; first < out.C; first += kGroup) {
          const int64_t width = std::min(kGroup, wide - first);
          multiply(v, 0, tiles, u, first * in.C, width, m);
          write_all(begin, tiles, first, width, m);
        }
      }
    });
  }

  // Transforms all input of a span first, then processes groups of channels and parts of the span. Without
  // `all` a thread transforms the taps of its group.
  void run_spans(Points* all) const {
    // With few tiles, the taps' transform would not pay.
    const int64_t span = round_up(std::max(kSpan / kSquare<Scheme> / in.C, out.C), kUnitRows);
    const int64_t groups = ceil_div(out.C, kGroup);
    Points v(kPoints, std::min(span, round_up(in.count(), kTileRows)) * stride);
    for (int64_t begin = 0; begin < in.count(); begin += span) {
      const int64_t tiles = std::min(span, in.count() - begin), blocks = ceil_div(tiles, kUnitRows);
      parallel_for(tiles, 8,
                   [&](int64_t from, int64_t to) { transform_input(begin + from, to - from, from, v); });
      parallel_for(groups * blocks, 1, [&](int64_t from, int64_t to) {
        Points own, m(kPoints, kUnitRows * kGroup);
        if (!all) own = Points(kMatrices, in.C * kGroup);
        for (int64_t unit = from, group = -1; unit < to; ++unit) {
          const int64_t first = unit / blocks * kGroup, width = std::min(kGroup, wide - first);
          if (!all && unit / blocks != group) transform_taps(first, width, 0, in.C, own, 0);
          group = unit / blocks;
          const int64_t row = unit % blocks * kUnitRows, rows = std::min(kUnitRows, tiles - row);
          multiply(v, row, rows, all ? *all : own, all ? first * in.C : 0, width, m);
          write_all(begin + row, rows, first, width, m);
        }
      });
    }
  }

  // `all`: the result of transform_all_taps(), or null.
  void run(Points* all) const {
    const int64_t fitting = kBlock / kSquare<Scheme> / in.C / kTileRows * kTileRows;
    const int64_t block = std::clamp(fitting, std::min(kMinBlock, kUnitRows), kUnitRows);
    // Enough blocks that all threads have about the same amount of work.
    if (ceil_div(in.count(), block) >= std::min<int64_t>(kManyBlocks, 2 * thread_count()))
      run_blocks(block, all ? *all : transform_all_taps());
    else
      run_spans(all);
  }
};

// taps() returns the weights as [3, 3, C, O]; their transform may be kept.
template <class Scheme, class Taps>
void convolve(const Tensor& map, const Tensor& w, const Taps& taps, bool rotated, const Tensor& bias,
              Activation act, float shift, Tensor& result, const FeatureLevels& levels) {
  dispatch_dtype<float, bf16>(map.dtype(), "conv2d", [&]<class T>() {
    Convolution<T, Scheme> c{{map.data<T>(), map, levels, Scheme::kStep},
                             {result.data<T>(), result, levels, Scheme::kOut},
                             nullptr,
                             data_or_null<float>(bias),
                             rotated,
                             act == Activation::kRelu,
                             shift};
    Tensor read;
    const auto transformed = [&] {
      read = taps();
      c.taps = read.template data<T>();
      return c.transform_all_taps().memory;
    };
    if (keeps_forms(w)) {
      const CacheKey form =
          CacheKey().add(Scheme::kIn, Scheme::kOut, rotated, c.in.C, c.out.C, static_cast<int>(w.dtype()));
      Points all(Scheme::kMatrices, c.in.C * c.wide, prepared(w, "winograd " + form.text(), transformed));
      return c.run(&all);
    }
    read = taps();
    c.taps = read.template data<T>();
    c.run(nullptr);
  });
}

template <class Scheme>
void sum_taps(const Tensor& dy, const Tensor& x, Tensor& dw, const FeatureLevels& levels) {
  dispatch_dtype<float, bf16>(x.dtype(), "conv2d", [&]<class T>() {
    TapsSum<T, Scheme>{
        {x.data<T>(), x, levels, Scheme::kStep}, {dy.data<T>(), dy, levels, Scheme::kOut}, dw.data<float>()}
        .run();
  });
}

// Calls f<Scheme>() with the scheme of a kind; `Halved` is the one for stride 2.
template <class Halved, class F>
void with_scheme(Winograd kind, const F& f) {
  switch (kind) {
    case Winograd::kSame3:
      return f.template operator()<Same3>();
    case Winograd::kSame4:
      return f.template operator()<Same4>();
    case Winograd::kStrided:
      return f.template operator()<Halved>();
  }
}

}  // namespace

std::optional<Winograd> winograd_kind(ConvRoute route) {
  if (route == ConvRoute::kWinograd3) return Winograd::kSame3;
  if (route == ConvRoute::kWinograd4) return Winograd::kSame4;
  if (route == ConvRoute::kWinogradStrided) return Winograd::kStrided;
  return {};
}

void winograd_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Winograd kind, Activation act,
                      Tensor& y, const FeatureLevels& levels, float shift) {
  const auto taps = [&] { return w.permute({2, 3, 1, 0}).contiguous(); };
  with_scheme<Strided>(
      kind, [&]<class Scheme>() { convolve<Scheme>(x, w, taps, false, bias, act, shift, y, levels); });
}

void winograd_backward_data(const Tensor& dy, const Tensor& w, Winograd kind, Tensor& dx,
                            const FeatureLevels& levels) {
  const auto taps = [&] { return w.permute({2, 3, 0, 1}).contiguous(); };
  with_scheme<Spread>(kind, [&]<class Scheme>() {
    convolve<Scheme>(dy, w, taps, true, {}, Activation::kNone, 0, dx, levels);
  });
}

void winograd_backward_weight(const Tensor& dy, const Tensor& x, Winograd kind, Tensor& dw,
                              const FeatureLevels& levels) {
  const bool direct = dw.dtype() == DType::kF32 && dw.is_contiguous();
  Tensor sum = direct ? dw : Tensor::empty(dw.shape());
  with_scheme<Strided>(kind, [&]<class Scheme>() { sum_taps<Scheme>(dy, x, sum, levels); });
  if (!direct) dw.copy_from(sum);
}

}  // namespace saccade::cpu
