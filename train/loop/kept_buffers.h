// Saves what a step changes besides the weights, the buffers of a model (running statistics of batch norm),
// so that the step can be undone.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/module.h"

namespace saccade {

class KeptBuffers {
 public:
  explicit KeptBuffers(const Module& model);
  // Saves the current values. Buffers that change from step to step move into one block of memory, so that
  // this is one copy.
  void keep();
  // Restores the saved values.
  void restore();

 private:
  struct Buffer {
    Var var;
    bool changes = false;  // from step to step: then it is part of all_
    Tensor kept;           // for other buffers, with the storage and version of the value when saved
    const Storage* storage = nullptr;
    uint32_t version = 0;
  };
  void gather();

  std::vector<Buffer> buffers_;
  Tensor all_, kept_all_;
};

}  // namespace saccade
