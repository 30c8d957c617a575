// The tensors of a golden file, which scripts/golden wrote from other implementations.
#pragma once

#include <string>
#include <vector>

#include "core/formats/safetensors.h"
#include "tests/compare_tensors.h"

namespace saccade {

class Golden {
 public:
  // `name` is relative to tests/golden.
  explicit Golden(const std::string& name)
      : file_(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/" + name) {}
  Tensor operator[](const std::string& name) const { return file_.read(name); }

 private:
  SafetensorsReader file_;
};

}  // namespace saccade
