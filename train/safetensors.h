// safetensors files: an 8-byte little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}} with an optional "__metadata__" map of strings, then the raw tensors, row-major, without
// holes. https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace saccade {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as in the file: "F32", "BF16", ...
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes of the file
};

// Reads the header at once and tensors on demand. Every bound is checked: a damaged file throws InputError
// naming the file and the tensor, and is never read outside.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by position in the file
  const SafetensorsEntry* find(const std::string& name) const;               // null when absent

  // On the CPU. f64, f32, bf16, i64, i32, u8 and bool keep their type; f16 becomes f32 (exactly), i8, i16 and
  // u16 become i32, u32 becomes i64. Other types, and a missing name, throw InputError.
  Tensor read(const std::string& name) const;

 private:
  void parse_header(uint64_t file_size);
  void read_at(void* out, uint64_t bytes, uint64_t offset) const;

  std::string path_;
  int file_ = -1;
  std::map<std::string, std::string> metadata_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> index_;
};

using NamedValues = std::vector<std::pair<std::string, Tensor>>;

// Writes a temporary file in the same folder, syncs it, renames it over `path` and syncs the folder: whoever
// is killed at any moment leaves either the old file or the new one. The bytes depend on the arguments only.
// Throws Error with the reason when the file cannot be written, and on a duplicate name.
void write_safetensors(const std::string& path, const NamedValues& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace saccade
