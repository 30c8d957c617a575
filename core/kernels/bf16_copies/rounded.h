// Copies in bf16 of the parameters of a model on the GPU. A cast in every op that uses a weight is a launch
// each; here the first use after a change makes the copies of all that have changed in one launch.
#pragma once

#include "core/tensor/tensor.h"

namespace saccade {

// From now on the storage of t, all of it f32, has a copy. Only those on the GPU get one; every change of
// such a tensor must bump its version.
void keep_rounded(const Tensor& t);

// t in bf16: a view of the copy when there is one, which nobody may write, otherwise t.to(DType::kBF16).
Tensor rounded(const Tensor& t);

}  // namespace saccade
