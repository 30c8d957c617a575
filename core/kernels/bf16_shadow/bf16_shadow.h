// Shadows in bf16 of the parameters of a model on the GPU. A cast in every op that uses a weight would be a
// launch each; here the first use after a change renews all shadows whose parameters have changed in one.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// From now on the storage of t, all of it f32, has a shadow. Only storages on the GPU get one; every change
// of such a tensor must bump its version.
void keep_bf16_shadow(const Tensor& t);

// t in bf16: a view of its shadow when there is one, which nobody may write, otherwise t.to(DType::kBF16).
Tensor in_bf16(const Tensor& t);

}  // namespace saccade
