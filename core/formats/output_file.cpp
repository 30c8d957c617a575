#include "core/formats/output_file.h"

#include <unistd.h>

#include <filesystem>

#include "core/tensor/error.h"

namespace saccade {

void check_output_file(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return;
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    fail_input("{}: is a folder, expected the name of a file to write", path);
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, ignored)) fail_input("{}: there is no folder {}", path, folder.string());
  if (access(folder.c_str(), W_OK) != 0)
    fail_input("{}: no permission to write in {}", path, folder.string());
}

}  // namespace saccade
