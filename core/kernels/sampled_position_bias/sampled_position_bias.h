// Relative position bias read from a table at continuous displacements (Xia et al. 2022, DAT, eq. 8):
//
//   bias[n, h, q, s] = table[h] sampled bilinearly at (query[n, q] - key[n, group of h, s]) / 2
//
// with corners aligned (-1 and 1 are the centres of the outermost entries) and zeros outside. The H heads
// split into G groups of neighbouring heads that share their keys' positions.
//
// Shapes: table [H, Th, Tw]; query [N or 1, Q, 2] and key [N, G, S, 2] as (x, y) in [-1, 1]; bias [N, H, Q,
// S]. All f32 or all f64, contiguous.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

inline Kernel<void(const Tensor& table, const Tensor& query, const Tensor& key, Tensor& bias)>
    sampled_position_bias_forward{"sampled_position_bias_forward"};

// Gradients of dot(bias, dbias); undefined outputs are skipped. Deterministic: the table's gradient is summed
// per image by one owner in the order of queries and keys, then over the images.
inline Kernel<void(const Tensor& table, const Tensor& query, const Tensor& key, const Tensor& dbias,
                   Tensor& dtable, Tensor& dquery, Tensor& dkey)>
    sampled_position_bias_backward{"sampled_position_bias_backward"};

}  // namespace saccade::kernels
