// Tiles of a map as heads of attention (attention/attention_heads.h) for neighbourhood attention on the GPU,
// so that the kernels of attention_cuda_forward.h and attention_cuda_backward.h run over them. A tile of
// queries sees a patch of keys that is little larger than a window, and a tile of keys is seen by such a
// patch of queries; pairs outside each other's window have a term of -inf.
#pragma once

#include "core/kernels/attention/attention_cuda.h"
#include "core/kernels/neighbourhood_attention/neighbourhood_attention.h"

namespace saccade::cuda {

// With the usual window of 7 tokens, a patch of 13 x 14 tokens fills three tiles of the products.
constexpr int kNeighbourRows = 7, kNeighbourColumns = 8;
// A tile's patch extends half a window beyond it, even where windows at the map's edges are moved inside.
constexpr int kMaxNeighbours = 2 * kNeighbourRows - 1;

enum class TileOf { kQueries, kKeys };

// Tokens in rows of `columns`, from (top, left) on; positions outside [low, high) are not tokens.
struct TokenGrid {
  int top, left, rows, columns;
  int low_y, high_y, low_x, high_x;
};

// One axis of the map, divided into tiles.
struct CutAxis {
  kernels::NeighbourAxis axis;
  int side;  // tokens of a tile

  __host__ __device__ int tiles() const { return (axis.size + side - 1) / side; }
  __host__ __device__ int reach() const { return axis.window / 2; }
  __host__ __device__ int patch() const { return side + 2 * reach(); }  // keys that a tile of queries sees
  // The last tile of queries begins earlier instead of being smaller, so that all see their patches alike;
  // its first queries belong to the tile before.
  __host__ __device__ int begin(int tile) const {
    const int last = axis.size > side ? axis.size - side : 0;
    return tile * side < last ? tile * side : last;
  }
  __host__ __device__ int last_key(int tile) const {
    const int last = (tile + 1) * side - 1;
    return last < axis.size ? last : axis.size - 1;
  }
  // The first of the queries that see a tile of keys.
  __host__ __device__ int first_query(int tile) const { return axis.first_query(tile * side); }
  __host__ __device__ int query_count(int tile) const {
    return axis.last_query(last_key(tile)) + 1 - first_query(tile);
  }
  int most_queries() const {
    int most = 0;
    for (int tile = 0; tile < tiles(); ++tile) most = std::max(most, query_count(tile));
    return most;
  }
};

template <class T, TileOf kTile>
struct NeighbourTileHeads {
  using Element = T;
  const T *qkv, *dy_map = nullptr;
  const float* table;
  const bool* mask;
  CutAxis rows, columns;
  int N, C, H, D, Dv, queries, keys;
  float scale;
  kernels::NoDropout dropout;
  bool packs = false, pairs = false;
  static constexpr bool deltas_known = false;
  int group_tiles = 1;  // tiles that share a matrix of dpairs
  T *y = nullptr, *dqkv = nullptr;
  float *lse = nullptr, *delta = nullptr, *dpairs = nullptr;

  NeighbourTileHeads(const Tensor& map, const Tensor& bias_table, const Tensor& key_mask,
                     const kernels::NeighbourhoodParams& params)
      : qkv(map.data<T>()),
        table(data_or_null<float>(bias_table)),
        mask(data_or_null<bool>(key_mask)),
        rows{{static_cast<int>(map.dim(1)), static_cast<int>(params.window)}, kNeighbourRows},
        columns{{static_cast<int>(map.dim(2)), static_cast<int>(params.window)}, kNeighbourColumns},
        N(static_cast<int>(map.dim(0))),
        C(static_cast<int>(map.dim(3) / 3)),
        H(static_cast<int>(params.heads)),
        D(C / H),
        Dv(D),
        scale(static_cast<float>(params.scale)) {
    constexpr int kTokens = kNeighbourRows * kNeighbourColumns;
    queries = kTile == TileOf::kQueries ? kTokens : rows.most_queries() * columns.most_queries();
    keys = kTile == TileOf::kKeys ? kTokens : rows.patch() * columns.patch();
  }
  void set_gradients(const Tensor& log_sums, Tensor& deltas, const Tensor& dy, Tensor& dqkv_map) {
    lse = const_cast<float*>(log_sums.data<float>());  // it is only read
    delta = deltas.data<float>();
    dy_map = dy.data<T>();
    dqkv = data_or_null<T>(dqkv_map);
  }
  template <class Fits>
  void find_accesses(const Fits& fits) {
    packs = fits(qkv, D) && fits(dy_map, D);
    pairs = D % 2 == 0;
  }

  __host__ __device__ int window() const { return rows.axis.window; }
  __host__ __device__ int side() const { return 2 * window() - 1; }  // of the table
  __host__ __device__ int64_t tiles() const { return int64_t{N} * rows.tiles() * columns.tiles(); }
  int64_t count() const { return tiles() * H; }
  int64_t groups() const { return ceil_div(tiles(), group_tiles) * H; }
  __device__ bool one_member() const { return false; }
  __device__ int64_t members(int group) const {
    const int64_t rest = tiles() - int64_t{group / H} * group_tiles;
    return rest < group_tiles ? rest : group_tiles;
  }
  __device__ int64_t member(int group, int64_t i) const {
    return (int64_t{group / H} * group_tiles + i) * H + group % H;
  }

  // A token in the form that pair_term needs.
  struct alignas(8) Place {
    unsigned at;  // of a key its position, of a query the beginning of its window: y << 16 | x
    int bias;     // y * side + x
  };
  struct Head {
    int n, h, query_count;
    const int *query_tokens, *key_tokens;  // -1 if there is none
    const Place *query_places, *key_places;
    const float* biases;
  };
  __host__ __device__ static constexpr int padded(int tokens) { return (tokens + 63) / 64 * 64; }
  size_t head_bytes() const {
    return (sizeof(Place) + sizeof(int)) * static_cast<size_t>(padded(queries) + padded(keys)) +
           sizeof(float) * static_cast<size_t>(side() * side());
  }
  // All threads of the block must call it; ends with a barrier.
  __device__ Head head(int64_t number, void* shared) const {
    const auto index = static_cast<unsigned>(number);
    const int h = static_cast<int>(index % H),
              tile = static_cast<int>(index / H % (rows.tiles() * columns.tiles()));
    const int ty = tile / columns.tiles(), tx = tile % columns.tiles();
    const TokenGrid of_queries = query_grid(ty, tx), of_keys = key_grid(ty, tx);
    auto* query_places = static_cast<Place*>(shared);
    Place* key_places = query_places + padded(queries);
    int* query_tokens = reinterpret_cast<int*>(key_places + padded(keys));
    int* key_tokens = query_tokens + padded(queries);
    auto* biases = reinterpret_cast<float*>(key_tokens + padded(keys));
    fill(of_queries, queries, query_tokens, query_places, [&](int at_y, int at_x) {
      return static_cast<unsigned>(rows.axis.first_key(at_y)) << 16 |
             static_cast<unsigned>(columns.axis.first_key(at_x));
    });
    fill(of_keys, keys, key_tokens, key_places,
         [](int at_y, int at_x) { return static_cast<unsigned>(at_y) << 16 | static_cast<unsigned>(at_x); });
    for (int i = static_cast<int>(threadIdx.x); i < side() * side(); i += static_cast<int>(blockDim.x))
      biases[i] = table != nullptr ? table[h * side() * side() + i] : 0.0f;
    __syncthreads();
    const int n = static_cast<int>(index / H / (rows.tiles() * columns.tiles()));
    return {n,          h,     of_queries.rows * of_queries.columns, query_tokens, key_tokens, query_places,
            key_places, biases};
  }

  // Returns the head's part of a token in a map of `parts` times C channels.
  template <class E>
  __device__ E* token(E* map, const Head& head, int at, int parts, int part) const {
    if (map == nullptr || at < 0) return nullptr;
    return map + ((int64_t{head.n} * rows.axis.size * columns.axis.size + at) * parts + part) * C +
           head.h * D;
  }
  __device__ const T* query(const Head& a, int i) const { return token(qkv, a, a.query_tokens[i], 3, 0); }
  __device__ const T* key(const Head& a, int s) const { return token(qkv, a, a.key_tokens[s], 3, 1); }
  __device__ const T* value(const Head& a, int s) const { return token(qkv, a, a.key_tokens[s], 3, 2); }
  __device__ const T* dy(const Head& a, int i) const { return token(dy_map, a, a.query_tokens[i], 1, 0); }
  __device__ T* output(const Head& a, int i) const { return token(y, a, a.query_tokens[i], 1, 0); }
  __device__ bool wants_dq() const { return dqkv != nullptr; }
  __device__ T* dquery(const Head& a, int i) const { return token(dqkv, a, a.query_tokens[i], 3, 0); }
  __device__ T* dkey(const Head& a, int s) const { return token(dqkv, a, a.key_tokens[s], 3, 1); }
  __device__ T* dvalue(const Head& a, int s) const { return token(dqkv, a, a.key_tokens[s], 3, 2); }
  __device__ float* filler(const Head&, int, int) const { return nullptr; }

  // A position without a query uses the row of another one: its weights of 0 are multiplied by those numbers.
  __device__ int64_t row(const Head& a, int i) const {
    const int at = a.query_tokens[i] < 0 ? 0 : a.query_tokens[i];
    return (int64_t{a.n} * H + a.h) * rows.axis.size * columns.axis.size + at;
  }
  __device__ bool owns_row(const Head& a, int i) const { return a.query_tokens[i] >= 0; }
  __device__ int queries_of(const Head& a) const { return a.query_count; }
  __device__ float key_term(const Head& a, int s) const {
    const int at = a.key_tokens[s];
    const bool ignored =
        at < 0 || (mask != nullptr && mask[int64_t{a.n} * rows.axis.size * columns.axis.size + at]);
    return ignored ? kMinusInfinity : 0.0f;
  }
  __device__ bool has_pair_terms() const { return true; }
  __device__ float pair_term(const Head& a, int i, int s) const {
    const Place query = a.query_places[i], key = a.key_places[s];
    // A key left of the window borrows from y, which leaves a large x.
    const unsigned from_first = key.at - query.at, width = static_cast<unsigned>(window());
    if ((from_first >> 16) >= width || (from_first & 0xffff) >= width) return kMinusInfinity;
    return a.biases[key.bias - query.bias + side() * side() / 2];
  }

 private:
  __device__ TokenGrid query_grid(int ty, int tx) const {
    const int height = rows.axis.size, width = columns.axis.size;
    if constexpr (kTile == TileOf::kQueries)
      return {rows.begin(ty), columns.begin(tx), rows.side, columns.side, ty * rows.side,
              height,         tx * columns.side, width};
    else
      return {rows.first_query(ty),
              columns.first_query(tx),
              rows.query_count(ty),
              columns.query_count(tx),
              0,
              height,
              0,
              width};
  }
  __device__ TokenGrid key_grid(int ty, int tx) const {
    const int height = rows.axis.size, width = columns.axis.size;
    if constexpr (kTile == TileOf::kQueries)
      return {rows.begin(ty) - rows.reach(),
              columns.begin(tx) - columns.reach(),
              rows.patch(),
              columns.patch(),
              0,
              height,
              0,
              width};
    else
      return {ty * rows.side, tx * columns.side, rows.side, columns.side, 0, height, 0, width};
  }
  template <class At>
  __device__ void fill(const TokenGrid& grid, int tokens_here, int* tokens, Place* places,
                       const At& at) const {
    for (int i = static_cast<int>(threadIdx.x); i < padded(tokens_here); i += static_cast<int>(blockDim.x)) {
      const int at_y = grid.top + i / grid.columns, at_x = grid.left + i % grid.columns;
      const bool there = i < grid.rows * grid.columns && at_y >= grid.low_y && at_y < grid.high_y &&
                         at_x >= grid.low_x && at_x < grid.high_x;
      tokens[i] = there ? at_y * columns.axis.size + at_x : -1;
      // A position without a token is in no window.
      places[i] = there ? Place{at(at_y, at_x), at_y * side() + at_x} : Place{0x7fff7fffu, 0};
    }
  }
};

}  // namespace saccade::cuda
