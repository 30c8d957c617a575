// Sines and cosines of coordinates, the position encodings of the DETR family. Computed in f64: the angles of far cells have many
// turns.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// x f32 [..] -> y f32 [.., C]: channels 2i and 2i + 1 are the sine and cosine of 2 pi x / 10000^(2i / C). Contiguous.
inline Kernel<void(const Tensor& x, Tensor& y)> sine_encoding{"sine_encoding"};

}  // namespace saccade::kernels
