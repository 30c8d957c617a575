// Files of named tensors from any program: safetensors, or PyTorch's .pth (the zip container and the older
// pickle stream). Nothing in a file is ever executed, and every bound is checked: a damaged or hostile file
// throws InputError with one line that names the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/tensor.h"

namespace saccade {

struct WeightEntry {
  std::string name;
  std::string dtype;  // safetensors' name: "F32", "BF16", ...
  Shape shape;
};

using WeightScalar = std::variant<bool, int64_t, double, std::string>;

// The tables are read when the file is opened, tensors on demand.
class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  WeightsFile& operator=(WeightsFile&&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<WeightEntry>& entries() const { return entries_; }  // in the file's order
  const WeightEntry* find(const std::string& name) const;               // null if absent

  // Returns a dense tensor on the CPU. f64, f32, bf16, i64, i32, u8 and bool keep their type; f16 becomes f32
  // (exactly), i8, i16 and u16 become i32, u32 becomes i64. Throws InputError for others and missing names.
  virtual Tensor read(const std::string& name) const = 0;

  // Compares all parts of the file that were not read yet with their checksums, if the format has them (our
  // safetensors files, PyTorch's zip container). Throws InputError naming the damaged part.
  virtual void verify() const {}

  // The strings in a safetensors file's "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Plain values that a .pth file holds in addition to its tensors, by their path: "epoch", "args.dilation".
  const std::map<std::string, WeightScalar>& scalars() const { return scalars_; }
  // The place of the tensors in a .pth file: "model", "ema.module", or "" for the top.
  const std::string& section() const { return section_; }

 protected:
  explicit WeightsFile(std::string path) : path_(std::move(path)) {}
  // Throws InputError if the name already exists.
  void add(WeightEntry entry);

  std::string path_, section_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, WeightScalar> scalars_;

 private:
  std::vector<WeightEntry> entries_;
  std::map<std::string, size_t> index_;
};

// Recognises the format by the first bytes. An index of several files (*.index.json) represents all of them.
// `key` is that of the dictionary that holds the tensors of a .pth file, if it is not one of the usual ones
// (torch_section.h).
std::unique_ptr<WeightsFile> open_weights(const std::string& path, const std::string& key = "");
// The same for one file, even if it is a part of several.
std::unique_ptr<WeightsFile> open_weights_part(const std::string& path, const std::string& key = "");

// ---- for the formats --------------------------------------------------------------------------------------

bool is_float_dtype(std::string_view dtype);
// Returns the bytes of an element; 0 for a type that no format has.
size_t dtype_bytes(std::string_view dtype);
// Returns the name of our dtype in files: "F32".
const char* file_dtype(DType dtype);
// Decodes a tensor from its elements in the file; `fill` writes all of their bytes, row-major.
Tensor decode_tensor(const WeightEntry& entry, const std::string& path,
                     const std::function<void(void* out)>& fill);

}  // namespace saccade
