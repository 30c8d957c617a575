// Shadows in bf16 of a model's parameters on the GPU. A cast in every op that uses a weight would be one
// launch each; here the first use after a change renews all outdated shadows in one launch.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// From now on the storage of t, all of which is f32, has a shadow. Only storages on the GPU get one; every
// change of such a tensor must bump its version.
void keep_bf16_shadow(const Tensor& t);

// Returns t in bf16: a read-only view of its shadow if there is one, otherwise t.to(DType::kBF16).
Tensor in_bf16(const Tensor& t);

}  // namespace saccade
