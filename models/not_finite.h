// The error for NaN and infinite numbers. If a model predicts them, its weights are at fault,
// and only the caller knows where those come from.
#pragma once

#include "core/kernels/reduce/reduce.h"
#include "core/tensor/error.h"

namespace saccade {

class NotFinite : public Error {
 public:
  using Error::Error;
};

}  // namespace saccade
