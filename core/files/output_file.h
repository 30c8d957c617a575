// The writer of files. A file appears under its name when it is complete, or not at all; one that it replaces
// gives it its permissions. Links are followed: the file that they lead to is written. Character devices
// (/dev/null) and the program's own descriptors (own_descriptor: /dev/stdout, a shell's >(COMMAND)) are
// written into; folders, FIFOs, sockets, block devices and files that are read-only are refused. What is
// wrong with the name is an InputError, a fault of the machine (no space) an Error, both one line.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/files/temporary.h"

namespace saccade {

// Where a path leads, links followed, and what is there.
struct OutputTarget {
  std::string path;                // for messages and errors too
  int descriptor = -1;             // of the program itself; else -1
  bool is_device = false;          // a character device
  std::optional<struct stat> old;  // the file that would be replaced
};
// Throws InputError when no file can be written there.
OutputTarget output_target(const std::string& path);

// For a file or folder whose name the user has not given, as those in the folder of a run, which may be a
// stranger's: throws InputError where it is a symbolic link, through which a file elsewhere would be written.
void refuse_link(const std::string& path);

// What a command reads and writes: an argument's name and its path, "" when it is not given.
struct NamedPath {
  const char* name;
  std::string path;
};
// Before long work: throws InputError when an output cannot be written, is one of the inputs,
// or when two outputs are one file.
void check_outputs(std::initializer_list<NamedPath> outputs, std::initializer_list<NamedPath> inputs);

class OutputFile {
 public:
  enum class Sync { kNo, kYes };  // kYes: the file and its folder are on the disk when commit() returns
  explicit OutputFile(const std::string& path, Sync sync = Sync::kNo);
  ~OutputFile();  // without commit() nothing has changed
  OutputFile& operator=(OutputFile&&) = delete;

  void write(const void* data, size_t bytes);  // at the end
  // Anywhere, also over what was written there. Only of files: not of devices and pipes.
  void write_at(const void* data, size_t bytes, uint64_t offset);
  void commit();

 private:
  template <class Put>
  void write_all(const void* data, size_t bytes, const Put& put);
  [[noreturn]] void stop(const char* what) const;
  void take_over_permissions(const struct stat& old) const;

  OutputTarget target_;
  Sync sync_;
  std::string folder_;
  std::optional<TemporaryPath> temporary_;
  int file_ = -1;
};

// Whether a file, a folder or a link has this name; a link that leads nowhere is there, too.
bool is_there(const std::string& path);
// What was renamed in a folder is on the disk when this returns, as far as the file system can.
void sync_folder(const std::string& path);

void write_file(const std::string& path, std::span<const uint8_t> bytes);
void write_file(const std::string& path, std::string_view text);

}  // namespace saccade
