// Dropout masks, redrawn in every call from Philox(key, call, element index / 4): nothing is stored. `first`
// is the index of the first element, not 0 if x is a part of a larger tensor.
#pragma once

#include "core/runtime/kernel.h"

namespace saccade::kernels {

// y[i] = 0 with probability p, x[i] / (1 - p) otherwise; contiguous, one floating dtype. The gradient is the
// same function of dy. Element i is dropped if uniform_from_bits(Philox::generate(key, call, i / 4).x[i % 4])
// < p. first is a multiple of 4.
inline Kernel<void(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first, Tensor& y)>
    dropout{"dropout"};
// The same with i the index along axis 0: whole samples are dropped.
inline Kernel<void(const Tensor& x, double p, uint64_t key, uint64_t call, uint64_t first, Tensor& y)>
    drop_path{"drop_path"};

}  // namespace saccade::kernels
