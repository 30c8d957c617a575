#include "core/kernels/conv2d/winograd_cpu.h"

#include "core/kernels/common/small_gemm_cpu.h"
#include "core/kernels/conv2d/winograd_transforms_cpu.h"
#include "core/runtime/parallel.h"
#include "core/tensor/integers.h"
#include "core/tensor/tensor.h"

namespace saccade::cpu {
namespace {

using namespace winograd;

constexpr int64_t kSquare = kPoints * kPoints;
constexpr int64_t kPanels = 4, kGroup = kPanels * kLanes;  // channels of a unit of work
constexpr int64_t kRows = 8 * kTileRows;                   // tiles of one
constexpr int64_t kSpan = 1 << 19;                         // numbers of transformed input at a time
constexpr int64_t kDepth = 96;                    // tiles that are summed before the sums are put away
constexpr int64_t kParts = 16, kPartTiles = 192;  // of the tiles, each with sums of its own

// Matrices, one for each point. Their distance is no power of two, so that the points do not share a set of the cache.
struct Points {
  int64_t distance = 0;
  Tensor memory;
  Points() = default;
  explicit Points(int64_t size)
      : distance(round_up(size, kLanes) + kLanes), memory(Tensor::empty({kSquare * distance})) {}
  float* at(int64_t point) { return memory.data<float>() + point * distance; }
};

// A map [N, H, W, C] in tiles of 4x4 positions.
template <class T>
struct Tiles {
  T* map;
  int64_t N, H, W, C, rows, columns;
  Tiles(T* data, const Tensor& t)
      : map(data),
        N(t.dim(0)),
        H(t.dim(1)),
        W(t.dim(2)),
        C(t.dim(3)),
        rows(ceil_div(H, kTile)),
        columns(ceil_div(W, kTile)) {}
  int64_t count() const { return N * rows * columns; }

  // The kSize x kSize positions from the first one of a tile less `border`, those outside null.
  template <int kSize>
  void positions(int64_t tile, int border, T* (&out)[kSize][kSize]) const {
    const int64_t top = tile / columns % rows * kTile - border, left = tile % columns * kTile - border;
    T* image = map + tile / columns / rows * H * W * C;
    for (int i = 0; i < kSize; ++i)
      for (int j = 0; j < kSize; ++j) {
        const int64_t h = top + i, v = left + j;
        out[i][j] = h < 0 || h >= H || v < 0 || v >= W ? nullptr : image + (h * W + v) * C;
      }
  }
};

// The positions' channels [first, first + count), transformed: channel c of a point goes to out.at(point) + place(c).
template <class Transform, class T, int kSize, class Place>
void transform_channels(T* (&positions)[kSize][kSize], int64_t first, int64_t count, Points& out,
                        const Place& place) {
  for (int64_t c = 0; c < count; c += kLanes) {
    float* to = out.at(0) + place(c);
    transform<Transform>(
        [&](int i, int j) { return positions[i][j] ? load(positions[i][j] + first + c) : Floats{}; },
        [&](int i, int j, Floats v) { store(to + (i * kPoints + j) * out.distance, v); });
  }
}

// result = act(map * taps [3, 3, C, O] + bias); turned by half a turn, the taps are those of the gradient.
template <class T>
struct Convolution {
  Tiles<const T> in;
  Tiles<T> out;
  const T* taps;
  const float* bias;
  bool turned, relu;

  // Panels [channels of the map, kLanes] of the taps that lead to channels [first, first + width).
  void transform_taps(int64_t first, int64_t width, Points& u) const {
    for (int64_t k = 0; k < width; k += kLanes)
      for (int64_t c = 0; c < in.C; ++c) {
        float* to = u.at(0) + k * in.C + c * kLanes;
        transform<TapsTransform>(
            [&](int i, int j) {
              const int tap = turned ? 8 - 3 * i - j : 3 * i + j;
              return load(taps + (tap * in.C + c) * out.C + first + k);
            },
            [&](int i, int j, Floats v) { store(to + (i * kPoints + j) * u.distance, v); });
      }
  }

  void write(int64_t tile, int64_t first, int64_t width, const float* m, int64_t distance) const {
    T* to[kTile][kTile];
    out.positions(tile, 0, to);
    for (int64_t k = 0; k < width; k += kLanes) {
      const Floats b = bias ? load(bias + first + k) : Floats{};
      transform<OutputTransform>([&](int i, int j) { return load(m + (i * kPoints + j) * distance + k); },
                                 [&](int i, int j, Floats v) {
                                   if (!to[i][j]) return;
                                   v = v + b;
                                   store(to[i][j] + first + k, relu ? select(v < 0.0f, Floats{}, v) : v);
                                 });
    }
  }

  void run() const {
    const int64_t span = std::max<int64_t>(1, kSpan / kSquare / in.C / kRows) * kRows;
    const int64_t groups = ceil_div(out.C, kGroup);
    Points v(std::min(span, round_up(in.count(), kTileRows)) * in.C);
    for (int64_t begin = 0; begin < in.count(); begin += span) {
      const int64_t tiles = std::min(span, in.count() - begin), blocks = ceil_div(tiles, kRows);
      parallel_for(tiles, 8, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
          const T* positions[kPoints][kPoints];
          in.positions(begin + t, 1, positions);
          transform_channels<InputTransform>(positions, 0, in.C, v, [&](int64_t c) { return t * in.C + c; });
        }
      });
      parallel_for(groups * blocks, 1, [&](int64_t from, int64_t to) {
        Points u(in.C * kGroup), m(kRows * kGroup);
        for (int64_t unit = from, group = -1; unit < to; ++unit) {
          const int64_t first = unit / blocks * kGroup, width = std::min(kGroup, out.C - first);
          if (unit / blocks != group) transform_taps(first, width, u);
          group = unit / blocks;
          const int64_t row = unit % blocks * kRows, rows = std::min(kRows, tiles - row);
          // What is past the last tile is multiplied along with it and not read.
          for (int64_t point = 0; point < kSquare; ++point)
            for (int64_t k = 0; k < width; k += kLanes)
              small_gemm<false>(round_up(rows, kTileRows), kLanes, in.C, v.at(point) + row * in.C, in.C, 1,
                                u.at(point) + k * in.C, kLanes, m.at(point) + k, kGroup);
          for (int64_t t = 0; t < rows; ++t)
            write(begin + row + t, first, width, m.at(0) + t * kGroup, m.distance);
        }
      });
    }
  }
};

void convolve(const Tensor& map, const Tensor& taps, bool turned, const Tensor& bias, Activation act,
              Tensor& result) {
  dispatch_dtype<float, bf16>(map.dtype(), "conv2d", [&]<class T>() {
    Convolution<T>{{map.data<T>(), map},
                   {result.data<T>(), result},
                   taps.data<T>(),
                   data_or_null<float>(bias),
                   turned,
                   act == Activation::kRelu}
        .run();
  });
}

// The gradient of the taps.
template <class T>
struct TapsSum {
  Tiles<const T> in, out;  // the input, the result's gradient

  // The sum over tiles [begin, end) of the points' products, of channels [first, first + width) of the input:
  // [points][width / kLanes][out.C, kLanes].
  Points sum(int64_t begin, int64_t end, int64_t first, int64_t width) const {
    const int64_t blocks = ceil_div(end - begin, kDepth), depth = ceil_div(end - begin, blocks);
    Points v(depth * width), w(depth * out.C), sums(width * out.C);
    for (int64_t from = begin; from < end; from += depth) {
      const int64_t tiles = std::min(depth, end - from);
      for (int64_t t = 0; t < tiles; ++t) {
        const T *read[kPoints][kPoints], *given[kTile][kTile];
        in.positions(from + t, 1, read);
        out.positions(from + t, 0, given);
        transform_channels<InputTransform>(read, first, width, v,
                                           [&](int64_t c) { return c * depth + t * kLanes; });
        transform_channels<OutputGradient>(given, 0, out.C, w, [&](int64_t c) { return t * out.C + c; });
      }
      const auto multiply = from == begin ? &small_gemm<false> : &small_gemm<true>;
      for (int64_t point = 0; point < kSquare; ++point)
        for (int64_t c = 0; c < width; c += kLanes)
          multiply(out.C, kLanes, tiles, w.at(point), 1, out.C, v.at(point) + c * depth, kLanes,
                   sums.at(point) + c * out.C, kLanes);
    }
    return sums;
  }

  // From the sums of all parts to taps [out.C, 3, 3, in.C]: rows [begin, end) of their matrices.
  void write(std::vector<Points>& parts, int64_t first, int64_t begin, int64_t end, float* taps) const {
    for (int64_t i = begin; i < end; ++i) {
      float* tap = taps + i % out.C * 9 * in.C + first + i / out.C * kLanes;
      transform<TapsGradient>(
          [&](int r, int s) {
            Floats sum{};
            for (Points& part : parts) sum += load(part.at(r * kPoints + s) + i * kLanes);
            return sum;
          },
          [&](int r, int s, Floats v) { store(tap + (3 * r + s) * in.C, v); });
    }
  }

  void run(float* taps) const {
    const int64_t tiles = out.count(), parts = std::clamp<int64_t>(tiles / kPartTiles, 1, kParts);
    const int64_t groups = ceil_div(in.C, kGroup);
    std::vector<std::vector<Points>> sums(groups);  // of a group's parts
    for (auto& of_group : sums) of_group.resize(parts);
    parallel_for(parts * groups, 1, [&](int64_t from, int64_t to) {
      for (int64_t unit = from; unit < to; ++unit) {
        const int64_t group = unit / parts, part = unit % parts, first = group * kGroup;
        const int64_t width = std::min(kGroup, in.C - first);
        sums[group][part] = sum(tiles * part / parts, tiles * (part + 1) / parts, first, width);
        if (parts > 1) continue;
        write(sums[group], first, 0, width / kLanes * out.C, taps);
        sums[group].clear();
      }
    });
    if (parts == 1) return;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t first = group * kGroup, width = std::min(kGroup, in.C - first);
      parallel_for(width / kLanes * out.C, 64,
                   [&](int64_t from, int64_t to) { write(sums[group], first, from, to, taps); });
    }
  }
};

}  // namespace

void winograd_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Activation act, Tensor& y) {
  convolve(x, w.permute({2, 3, 1, 0}).contiguous(), false, bias, act, y);
}

void winograd_backward_data(const Tensor& dy, const Tensor& w, Tensor& dx) {
  convolve(dy, w.permute({2, 3, 0, 1}).contiguous(), true, {}, Activation::kNone, dx);
}

void winograd_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) {
  Tensor taps = Tensor::empty({dw.dim(0), 3, 3, dw.dim(1)});
  dispatch_dtype<float, bf16>(x.dtype(), "conv2d", [&]<class T>() {
    TapsSum<T>{{x.data<T>(), x}, {dy.data<T>(), dy}}.run(taps.data<float>());
  });
  dw.copy_from(taps.permute({0, 3, 1, 2}));
}

}  // namespace saccade::cpu
