// Zip archives whose entries are stored as they are, which is how torch.save writes them.
#pragma once

#include <map>
#include <string>

#include "core/formats/weights_file.h"

namespace saccade {

class ZipArchive {
 public:
  struct Entry {
    uint64_t header = 0, bytes = 0;  // header: byte of the file
    uint32_t checksum = 0;
  };

  // Reads the directory. Compressed and encrypted entries are errors, and so are names outside of the
  // archive.
  explicit ZipArchive(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  // What is read in one piece is compared with its checksum.
  void read(const Entry& entry, void* out, uint64_t bytes, uint64_t offset) const;
  uint64_t file_size() const { return file_.size(); }

 private:
  struct Directory {
    uint64_t entries = 0, bytes = 0, place = 0;
  };
  Directory find_directory() const;
  void add_entry(std::string_view record, std::string_view name, std::string_view extra);
  [[noreturn]] void damaged(const std::string& reason) const;

  InputFile file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace saccade
