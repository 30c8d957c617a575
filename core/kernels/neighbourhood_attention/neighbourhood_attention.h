// Attention of every token of a map to the window around it (Hassani et al. 2023, "Neighborhood Attention
// Transformer"), without copying the windows. At the edges the window is the nearest one inside the map, so
// that all queries have window^2 keys.
//
// Shapes: qkv [N, H, W, 3C] holds queries, keys and values one after the other, each split over `heads`; H
// and W are at least the window; table [heads, 2 window - 1, 2 window - 1] or undefined: the bias of query
// (y, x) and key (v, u) is at (v - y + window - 1, u - x + window - 1); mask bool [N, H, W] or undefined,
// true = ignored as a key. y [N, H, W, C]; lse [N, heads, H, W] = log of the sum of exp(score) of a query,
// -inf if every key is ignored (such a row of y is 0). qkv and y have one dtype (f32, bf16 or f64); table and
// lse are f64 with f64 qkv and f32 otherwise. All are contiguous.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

struct NeighbourhoodParams {
  int64_t heads = 1;
  int64_t window = 7;  // tokens per side, odd
  double scale = 1;    // of the scores
};

// The visibility of tokens along an axis.
struct NeighbourAxis {
  int size, window;

  // Returns the first key that a query sees.
  SACCADE_HD int first_key(int query) const {
    const int first = query - window / 2, last_window = size - window;
    return first < 0 ? 0 : first > last_window ? last_window : first;
  }
  // The queries that see a key are those from first_query to last_query.
  SACCADE_HD int first_query(int key) const { return key < window ? 0 : key - window / 2; }
  SACCADE_HD int last_query(int key) const { return key >= size - window ? size - 1 : key + window / 2; }
};

inline Kernel<void(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                   const NeighbourhoodParams& params, Tensor& y, Tensor& lse)>
    neighbourhood_attention_forward{"neighbourhood_attention_forward"};

// Gradients of dot(y, dy); undefined outputs are skipped. dtable is f64 with f64 qkv and f32 otherwise. The
// weights are recomputed from lse. Deterministic: every gradient has one owner or is summed over parts that
// depend only on the shape.
inline Kernel<void(const Tensor& qkv, const Tensor& table, const Tensor& mask,
                   const NeighbourhoodParams& params, const Tensor& lse, const Tensor& dy, Tensor& dqkv,
                   Tensor& dtable)>
    neighbourhood_attention_backward{"neighbourhood_attention_backward"};

}  // namespace saccade::kernels
