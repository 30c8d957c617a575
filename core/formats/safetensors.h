// safetensors files: an 8-byte little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}} with an optional "__metadata__" map of strings, then the raw tensors, row-major, without
// holes. https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

// Reads the header at once and tensors on demand.
class SafetensorsReader : public WeightsFile {
 public:
  explicit SafetensorsReader(const std::string& path);
  Tensor read(const std::string& name) const override;

 private:
  void parse_header();

  InputFile file_;
  std::map<std::string, uint64_t> begin_;  // of each tensor, in bytes of the file
};

using NamedValues = std::vector<std::pair<std::string, Tensor>>;

// Writes a temporary file in the same folder, syncs it, renames it over `path` and syncs the folder: whoever
// is killed at any moment leaves either the old file or the new one. The bytes depend on the arguments only.
// Throws Error with the reason when the file cannot be written, and on a duplicate name.
void write_safetensors(const std::string& path, const NamedValues& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace saccade
