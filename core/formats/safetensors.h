// safetensors files: an 8-byte little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}} with an optional "__metadata__" map of strings, then the raw tensors, row-major, without
// holes. https://github.com/huggingface/safetensors#format
//
// Our files carry checksums (core/files/checksum.h) in their metadata: "saccade.checksums", one per tensor in
// the order of the data, and "saccade.header_checksum", of the header with zeros for its own digits. Files of
// other programs have neither.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/weights_file.h"

namespace saccade {

// Reads the header at once and tensors on demand. Compares what it reads with the checksums, if the file has
// them.
class SafetensorsReader : public WeightsFile {
 public:
  explicit SafetensorsReader(const std::string& path);
  Tensor read(const std::string& name) const override;
  void verify() const override;

 private:
  struct Place {
    uint64_t begin = 0, bytes = 0;  // position in the file
    std::string checksum;           // "" if there is none
    bool whole = false;             // all its bytes were compared with the checksum
  };
  void parse_header();
  // Moves the checksums out of the metadata.
  void take_checksums(std::string header);
  void compare(const std::string& name, Place& place, uint64_t found) const;

  InputFile file_;
  mutable std::map<std::string, Place> places_;
};

using NamedValues = std::vector<std::pair<std::string, Tensor>>;

// Writes a temporary file in the same folder, syncs it, renames it over `path` and syncs the folder: a
// process that is killed at any moment leaves either the old file or the new one. The bytes depend only on
// the arguments. Throws Error with the reason if the file cannot be written, and on a duplicate name;
// InputError for names and metadata that the format cannot hold.
void write_safetensors(const std::string& path, const NamedValues& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace saccade
