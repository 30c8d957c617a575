// Zip archives whose entries are stored uncompressed, as torch.save writes them.
#pragma once

#include <map>
#include <string>

#include "core/formats/weights_file.h"

namespace saccade {

class ZipArchive {
 public:
  struct Entry {
    uint64_t header = 0, bytes = 0;  // header: its position in the file
    uint32_t checksum = 0;
    std::string name = {};
    mutable bool whole = false;  // was compared with its checksum
  };

  // Reads the directory. Compressed and encrypted entries are errors, and so are names outside the archive.
  explicit ZipArchive(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  // Compares the entry with its checksum when any of it is first read.
  void read(const Entry& entry, void* out, uint64_t bytes, uint64_t offset) const;
  // The same for all entries that were not read yet.
  void verify() const;
  uint64_t file_size() const { return file_.size(); }

 private:
  struct Directory {
    uint64_t entries = 0, bytes = 0, place = 0;
  };
  Directory find_directory() const;
  void add_entry(std::string_view record, std::string_view name, std::string_view extra);
  [[noreturn]] void damaged(const std::string& reason) const;
  [[noreturn]] void damaged(const Entry& entry, const char* reason) const;
  // Returns where the entry's bytes begin, all of which are in the file.
  uint64_t find_bytes(const Entry& entry) const;
  void compare(const Entry& entry, uint64_t checksum) const;
  void verify(const Entry& entry) const;

  InputFile file_;
  std::map<std::string, Entry> entries_;
  uint64_t stored_ = 0;  // bytes of all entries
};

}  // namespace saccade
