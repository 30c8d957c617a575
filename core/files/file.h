// The only way in which files from outside are read. It opens regular files, checks their size before
// anything is read or allocated, and never blocks: FIFOs, devices, sockets and folders are refused. A problem
// is an InputError "path: what, expected what".
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// The expected kind of a file, and its greatest size.
struct FileKind {
  const char* name;  // "an image", for messages
  uint64_t max_bytes;
  bool has_own_encodings = false;  // of text: its reader knows UTF-16 and all line ends
};
inline constexpr FileKind kConfigFile{"a configuration file (textproto)", uint64_t{4} << 20};
inline constexpr FileKind kJsonFile{"a JSON file", uint64_t{4'000'000'000}};  // simdjson's limit is 2^32
inline constexpr FileKind kImageFile{"an image",
                                     uint64_t{640} << 20};  // an uncompressed image of kMaxImagePixels
inline constexpr FileKind kWeightsFile{"a weights file", uint64_t{16} << 30};
inline constexpr FileKind kTextFile{"a text file", uint64_t{1} << 30};  // tables, lists
inline constexpr FileKind kLogFile{"a metrics file", uint64_t{4} << 30};

// A regular file that can be read at any position.
class InputFile {
 public:
  InputFile(const std::string& path, const FileKind& kind);
  ~InputFile();
  InputFile& operator=(InputFile&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Also throws if the file has become too short.
  void read_at(void* out, uint64_t bytes, uint64_t offset) const;
  // Throws if the file no longer has the size with which it was opened.
  void check_size() const;

 private:
  std::string path_;
  int file_ = -1;
  uint64_t size_ = 0;
};

// Reads a whole file. It may also be a pipe that is one of the program's own descriptors (own_descriptor:
// /dev/stdin, a shell's <(COMMAND)), which is read to its end, up to the limit of its kind.
std::vector<uint8_t> read_file(const std::string& path, const FileKind& kind);
// Throws InputError for text that begins like UTF-16 or UTF-32.
void check_encoding(const std::string& path, std::string_view text);
// Returns the text with line feeds between its lines, if it has only carriage returns.
std::string with_line_feeds(std::string text);
// Reads UTF-8 text with line feeds, unless the kind has its own encodings.
std::string read_text(const std::string& path, const FileKind& kind);
// The same, into memory of that many bytes, which `memory` returns.
void read_file(const std::string& path, const FileKind& kind, const std::function<void*(uint64_t)>& memory);

// A folder whose files are named by an outside source, such as an annotation file or a list.
class NamedFolder {
 public:
  // "" means the working directory. `links` names links in it whose targets count as inside.
  explicit NamedFolder(const std::string& path, const std::vector<std::string>& links = {});
  // Returns why a name is refused: it is empty, absolute, has a "..", or leads through a symbolic link out of
  // the folder. Returns "" if it is not refused: the name then names something in the folder, or nothing.
  // Costs one lstat per component of the name.
  std::string refusal(const std::string& name) const;

 private:
  std::string path_;
  std::vector<std::string> inside_;  // real paths that end with a slash
};

}  // namespace saccade
