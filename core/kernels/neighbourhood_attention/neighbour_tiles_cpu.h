// Tiles of a map for neighbourhood attention on the CPU: the queries of a tile see keys of a patch that is
// little larger than a window, so their scores are one small product, in which the keys outside a query's
// window are masked.
#pragma once

#include <algorithm>
#include <vector>

#include "core/kernels/attention/attention_cpu.h"
#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {

// The tiles of one axis. Those of one kind have equal windows and positions relative to their patches.
struct TiledAxis {
  struct Tile {
    int begin, count;  // queries
    int first_key;     // first key of the patch
    int kind;
  };
  NeighbourAxis axis;
  int longest = 0;  // queries per tile
  int keys = 0;     // keys per patch
  std::vector<Tile> tiles;
  std::vector<int> of_kind;  // one tile of each kind

  TiledAxis(int64_t size, int64_t window, int64_t at_most)
      : axis{static_cast<int>(size), static_cast<int>(window)} {
    const int64_t count = ceil_div(size, at_most);
    longest = static_cast<int>(ceil_div(size, count));
    keys = std::min(axis.size, longest + axis.window - 1);
    for (int begin = 0; begin < axis.size; begin += longest) {
      Tile tile{begin, std::min(longest, axis.size - begin), 0, 0};
      tile.first_key = std::min(axis.first_key(begin), axis.size - keys);
      const auto same =
          std::ranges::find_if(of_kind, [&](int i) { return alike(tile, tiles[static_cast<size_t>(i)]); });
      tile.kind = static_cast<int>(same - of_kind.begin());
      if (same == of_kind.end()) of_kind.push_back(static_cast<int>(tiles.size()));
      tiles.push_back(tile);
    }
  }
  int kinds() const { return static_cast<int>(of_kind.size()); }
  int count() const { return static_cast<int>(tiles.size()); }
  const Tile& tile(int64_t i) const { return tiles[static_cast<size_t>(i)]; }
  const Tile& example(int64_t kind) const { return tile(of_kind[static_cast<size_t>(kind)]); }
  // Returns where the window of a tile's query begins in its patch.
  int window_in(const Tile& t, int query) const { return axis.first_key(t.begin + query) - t.first_key; }

 private:
  bool alike(const Tile& a, const Tile& b) const {
    if (a.count != b.count || a.first_key - a.begin != b.first_key - b.begin) return false;
    for (int q = 0; q < a.count; ++q)
      if (window_in(a, q) != window_in(b, q)) return false;
    return true;
  }
};

struct NeighbourTiles {
  // Wider tiles waste products; narrower ones load and transpose the keys more often.
  static constexpr int64_t kRows = 2, kColumns = 8;
  int64_t N, H, W, C, heads, D;
  TiledAxis rows, columns;
  int64_t window, T, S, Sp;  // T queries per tile, S keys per patch; Sp: padded to whole vectors
  float scale;
  // [kinds of rows, kinds of columns, heads, T, Sp]; -inf if a query does not see a key.
  cpu::LaneVector<float> bias;

  NeighbourTiles(const Tensor& qkv, const Tensor& table, const NeighbourhoodParams& p)
      : N(qkv.dim(0)),
        H(qkv.dim(1)),
        W(qkv.dim(2)),
        C(qkv.dim(3) / 3),
        heads(p.heads),
        D(C / p.heads),
        rows(H, p.window, kRows),
        columns(W, p.window, kColumns),
        window(p.window),
        T(int64_t{rows.longest} * columns.longest),
        S(int64_t{rows.keys} * columns.keys),
        Sp(round_up(S, cpu::kLanes)),
        scale(static_cast<float>(p.scale)),
        bias(static_cast<size_t>(kinds() * heads * T * Sp), -cpu::kInfinity) {
    const float* entries = data_or_null<float>(table);
    parallel_for(kinds() * heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        visit(i / heads, [&](int64_t at, int64_t entry, int64_t count) {
          float* to = bias.data() + i * T * Sp + at;
          const float* from = entries ? entries + i % heads * side() * side() + entry : nullptr;
          for (int64_t k = 0; k < count; ++k) to[k] = from ? from[k] : 0.0f;
        });
    });
  }
  int64_t kinds() const { return int64_t{rows.kinds()} * columns.kinds(); }
  int64_t kind(const TiledAxis::Tile& row, const TiledAxis::Tile& column) const {
    return int64_t{row.kind} * columns.kinds() + column.kind;
  }
  int64_t side() const { return 2 * window - 1; }  // of the table
  int64_t cells() const { return H * W; }

  // Calls run(at, entry, count) for every stretch of scores [T, Sp] of a tile of a kind that has entries of
  // the table.
  template <class Run>
  void visit(int64_t kind, const Run& run) const {
    const auto &row = rows.example(kind / columns.kinds()), &column = columns.example(kind % columns.kinds());
    for (int64_t q = 0; q < int64_t{row.count} * column.count; ++q) {
      const int y = static_cast<int>(q / column.count), x = static_cast<int>(q % column.count);
      const int top = rows.window_in(row, y), left = columns.window_in(column, x);
      const int64_t u = column.first_key + left - (column.begin + x) + window - 1;
      for (int64_t k = top; k < top + window; ++k) {
        const int64_t v = row.first_key + k - (row.begin + y) + window - 1;
        run(q * Sp + k * columns.keys + left, v * side() + u, window);
      }
    }
  }
};

}  // namespace saccade::kernels
