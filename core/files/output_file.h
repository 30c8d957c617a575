// The writer of files. A file appears under its name when it is complete, or not at all; it takes over the
// permissions of the file that it replaces. Links are followed: the file to which they lead is written.
// Character devices (/dev/null) and the program's own descriptors (own_descriptor: /dev/stdout, a shell's
// >(COMMAND)) are written to directly; folders, FIFOs, sockets, block devices and read-only files are
// refused. A bad name is an InputError, a fault of the machine (no space) an Error, both in one line.
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

// The place to which a path leads, with links followed, and what exists there.
struct OutputTarget {
  std::string path;                // also used in messages and errors
  int descriptor = -1;             // one of the program's own, or -1
  bool is_device = false;          // a character device
  std::optional<struct stat> old;  // the file that would be replaced
};
// Throws InputError if no file can be written there.
OutputTarget output_target(const std::string& path);

// For a file or folder that the user has not named, such as those in a run's folder, which may be a
// stranger's: throws InputError if it is a symbolic link, through which a file elsewhere would be written.
void refuse_link(const std::string& path);

// A path that a command reads or writes: the argument's name and its value, "" if not given.
struct NamedPath {
  const char* name;
  std::string path;
};
// Called before long work. Throws InputError if an output cannot be written, is one of the inputs, or is the
// same file as another output.
void check_outputs(std::initializer_list<NamedPath> outputs, std::initializer_list<NamedPath> inputs);

class OutputFile {
 public:
  enum class Sync { kNo, kYes };  // kYes: the file and its folder are on the disk when commit() returns
  explicit OutputFile(const std::string& path, Sync sync = Sync::kNo);
  ~OutputFile();  // without commit(), nothing changes
  OutputFile& operator=(OutputFile&&) = delete;

  void write(const void* data, size_t bytes);  // appends
  // Writes anywhere, even over earlier bytes. Only for files, not for devices and pipes.
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

// Returns whether a file, folder or link has this name, even a link that leads nowhere.
bool is_there(const std::string& path);
// Returns once the renames in a folder are on the disk, as far as the file system can ensure it.
void sync_folder(const std::string& path);

void write_file(const std::string& path, std::span<const uint8_t> bytes);
void write_file(const std::string& path, std::string_view text);

}  // namespace saccade
