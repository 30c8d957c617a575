// What a step changes besides the weights: the buffers of a model (running statistics of batch norm), kept so
// that the step can be undone.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/module.h"

namespace saccade {

class KeptBuffers {
 public:
  explicit KeptBuffers(const Module& model);
  // As they are now. Buffers that change from step to step move into one block of memory,
  // so that this is one copy.
  void keep();
  // As they were then.
  void restore();

 private:
  struct Buffer {
    Var var;
    bool changes = false;  // from step to step: it is in all_
    Tensor kept;           // else, with the storage and version of its value then
    const Storage* storage = nullptr;
    uint32_t version = 0;
  };
  void gather();

  std::vector<Buffer> buffers_;
  Tensor all_, kept_all_;
};

}  // namespace saccade
