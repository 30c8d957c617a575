// Numbers that are none. Where a model predicts them its weights are at fault,
// and only the caller knows where those are from.
#pragma once

#include "core/kernels/reduce/reduce.h"
#include "core/tensor/error.h"

namespace saccade {

class NotFinite : public Error {
 public:
  using Error::Error;
};

}  // namespace saccade
