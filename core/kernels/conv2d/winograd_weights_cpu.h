// The gradient of the weights by Winograd's algorithm: the products of the transformed input and the
// transformed gradient of the result at every point, summed over the tiles.
#pragma once

#include <utility>
#include <vector>

#include "core/kernels/conv2d/winograd_schemes_cpu.h"
#include "core/kernels/conv2d/winograd_tiles_cpu.h"
#include "core/runtime/parallel.h"

namespace saccade::cpu::winograd {

template <class Scheme>
constexpr int64_t kDepth = 3456 / kSquare<Scheme>;  // tiles that are summed before the sums are stored
constexpr int64_t kParts = 16, kPartTiles = 192;    // of the tiles, each with separate sums
constexpr int64_t kBlockRows = 16 * kTileRows;      // output channels of a unit of work
constexpr int64_t kTilesSpan = 1 << 21;             // numbers that are transformed at a time
static_assert(kBlockRows % kLanes == 0);

template <class T, class Scheme>
struct TapsSum {
  static constexpr int kPoints = Scheme::kPoints, kMatrices = Scheme::kMatrices;
  Tiles<const T> in, out;                    // the input, the result's gradient
  float* dw;                                 // [out.C, in.C, 3, 3]
  int64_t stride = round_up(out.C, kLanes);  // of the output channels: whole vectors

  // Transforms channels [first, first + width) of a tile of the input, and all of the result's gradient, to
  // place t of `capacity`: the former in panels, the latter in blocks of `block` channels.
  void transform_tile(int64_t tile, int64_t t, int64_t capacity, int64_t first, int64_t width, int64_t block,
                      Points& v, Points& w) const {
    const T *read[Scheme::kIn][Scheme::kIn], *given[Scheme::kOut][Scheme::kOut];
    in.positions(tile, Scheme::kBorder, read);
    out.positions(tile, 0, given);
    const auto place = [&](int64_t all, int64_t piece) {
      return [=](int64_t c) {
        const int64_t begin = c / piece * piece;
        return begin * capacity + t * std::min(piece, all - begin) + (c - begin);
      };
    };
    transform_channels<kPoints, &Scheme::input>(read, first, width, v, place(width, kPanel));
    transform_channels<kPoints, &Scheme::output_gradient>(given, 0, out.C, w, place(stride, block));
  }

  // A unit of work: channels [first, first + width) of v, and the `rows` of w, which for consecutive tiles
  // are `row` numbers apart.
  struct Unit {
    int64_t first, width, capacity;
    int64_t begin, rows, row;
  };
  // The sums [matrices][panels][rows, channels of the panel] over `tiles` tiles (`add`: and earlier ones).
  [[gnu::noinline, gnu::noclone]] void multiply(const Unit& u, Points& v, Points& w, int64_t tiles, bool add,
                                                Points& sums) const {
    const int64_t depth = ceil_div(tiles, ceil_div(tiles, kDepth<Scheme>));
    bool begun[kMatrices][kMatrices]{};
    for (int i = 0; i < kPoints; ++i)
      for (int j = 0; j < kPoints; ++j)
        for (int64_t t = 0; t < tiles; t += depth) {
          const int row = Scheme::matrix(i), column = Scheme::matrix(j);
          const bool adds = std::exchange(begun[row][column], true) || add;
          const auto product = adds ? &small_gemm<true> : &small_gemm<false>;
          for (int64_t c = 0; c < u.width; c += kPanel) {
            const int64_t panel = std::min(kPanel, u.width - c);
            product(u.rows, panel, std::min(depth, tiles - t), w.at(i, j) + u.begin * u.capacity + t * u.row,
                    1, u.row, v.at(i, j) + (u.first + c) * u.capacity + t * panel, panel,
                    sums.at(row, column) + c * u.rows, panel);
          }
        }
  }

  // Writes kLanes input channels from c on, for output channel o, from `at` of the sums of all parts.
  void write(std::vector<Points>& parts, int64_t at, int64_t o, int64_t c) const {
    float taps[9][kLanes];
    transform<kMatrices, 3, &Scheme::taps_gradient>(
        [&](int r, int s) {
          Floats sum = load(parts[0].at(r, s) + at);
          for (size_t p = 1; p < parts.size(); ++p) sum += load(parts[p].at(r, s) + at);
          return sum;
        },
        [&](int r, int s, Floats v) { store(taps[3 * r + s], v); });
    float* to = dw + (o * in.C + c) * 9;
    for (int k = 0; k < kLanes; ++k)
      for (int tap = 0; tap < 9; ++tap) to[9 * k + tap] = taps[tap][k];
  }
  // Writes vectors [begin, end) of the sums of `rows` output channels from o, `width` inputs from `first`.
  [[gnu::noinline, gnu::noclone]] void write_all(std::vector<Points>& parts, int64_t begin, int64_t end,
                                                 int64_t rows, int64_t o, int64_t first,
                                                 int64_t width) const {
    for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
      const int64_t panel = i / (kPanel * rows) * kPanel, of_panel = i - panel * rows;
      const int64_t row = std::min(kPanel, width - panel);
      write(parts, i, o + of_panel / row, first + panel + of_panel % row);
    }
  }

  // For few channels: every part of the tiles has separate sums, and only these leave the cache.
  Points sum(int64_t begin, int64_t end, int64_t first, int64_t width) const {
    const int64_t depth = ceil_div(end - begin, ceil_div(end - begin, kDepth<Scheme>));
    Points v(kPoints, depth * width), w(kPoints, depth * stride), sums(kMatrices, width * out.C);
    for (int64_t from = begin; from < end; from += depth) {
      const int64_t tiles = std::min(depth, end - from);
      for (int64_t t = 0; t < tiles; ++t) transform_tile(from + t, t, depth, first, width, stride, v, w);
      multiply({0, width, depth, 0, out.C, stride}, v, w, tiles, from > begin, sums);
    }
    return sums;
  }
  void run_parts() const {
    const int64_t tiles = out.count(), parts = std::clamp<int64_t>(tiles / kPartTiles, 1, kParts);
    const int64_t groups = ceil_div(in.C, kGroup);
    std::vector<std::vector<Points>> sums(groups);  // of a group's parts
    for (auto& of_group : sums) of_group.resize(parts);
    parallel_for(parts * groups, 1, [&](int64_t from, int64_t to) {
      for (int64_t unit = from; unit < to; ++unit) {
        const int64_t group = unit / parts, part = unit % parts, first = group * kGroup;
        sums[group][part] =
            sum(tiles * part / parts, tiles * (part + 1) / parts, first, std::min(kGroup, in.C - first));
      }
    });
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t first = group * kGroup, width = std::min(kGroup, in.C - first);
      parallel_for(width / kLanes * out.C, 64, [&](int64_t from, int64_t to) {
        write_all(sums[group], from, to, out.C, 0, first, width);
      });
    }
  }

  // For many channels: the tiles of a span are transformed, then every unit multiplies its channels of them.
  // If one span has all tiles, the sums never leave the cache.
  void run_spans() const {
    const int64_t tiles = out.count(), most = kTilesSpan / kSquare<Scheme> / (in.C + stride);
    const int64_t spans = ceil_div(tiles, std::max(most, kDepth<Scheme>)), span = ceil_div(tiles, spans);
    const int64_t groups = ceil_div(in.C, kGroup), blocks = ceil_div(out.C, kBlockRows);
    Points v(kPoints, span * in.C), w(kPoints, span * stride);
    std::vector<std::vector<Points>> kept(groups * blocks);
    for (int64_t begin = 0; begin < tiles; begin += span) {
      const int64_t count = std::min(span, tiles - begin);
      parallel_for(count, 8, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) transform_tile(begin + t, t, span, 0, in.C, kBlockRows, v, w);
      });
      parallel_for(groups * blocks, 1, [&](int64_t from, int64_t to) {
        for (int64_t unit = from; unit < to; ++unit) {
          const int64_t first = unit / blocks * kGroup, o = unit % blocks * kBlockRows;
          const int64_t width = std::min(kGroup, in.C - first), rows = std::min(kBlockRows, out.C - o);
          std::vector<Points>& sums = kept[unit];
          if (begin == 0) sums.emplace_back(kMatrices, rows * width);
          multiply({first, width, span, o, rows, std::min(kBlockRows, stride - o)}, v, w, count, begin > 0,
                   sums[0]);
          if (begin + count < tiles) continue;
          write_all(sums, 0, width / kLanes * rows, rows, o, first, width);
          sums.clear();
        }
      });
    }
  }

  void run() const { in.C > 2 * kGroup ? run_spans() : run_parts(); }
};

}  // namespace saccade::cpu::winograd
