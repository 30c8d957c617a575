#include "data/formats/named_classes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "data/images/image.h"

namespace saccade {
namespace {

constexpr size_t kMaxNames = 65536;  // as many as labels may be

}  // namespace

std::vector<std::string> read_class_list(const std::string& path) {
  std::istringstream in(read_text(path, kTextFile));
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  check_class_list(names, path);
  return names;
}

void check_class_list(const std::vector<std::string>& names, const std::string& path) {
  if (names.empty()) fail_input("{}: has no names of classes", path);
  if (names.size() > kMaxNames)
    fail_input("{}: {} classes, expected at most {}", path, names.size(), kMaxNames);
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail_input("{}: class {} has no name", path, i);
    if (!seen.insert(names[i]).second) fail_input("{}: the class \"{}\" is there twice", path, names[i]);
  }
}

std::vector<Category> number_classes(const std::vector<std::string>& names, const DataPaths& paths) {
  if (!paths.categories.empty()) return paths.categories;
  std::vector<Category> categories;
  for (const std::string& name : names)
    categories.push_back({static_cast<int64_t>(categories.size()) + 1, name});
  return categories;
}

std::map<std::string, int64_t> ids_by_name(const std::vector<Category>& categories) {
  std::map<std::string, int64_t> ids;
  for (const Category& category : categories) ids.emplace(category.name, category.id);
  return ids;
}

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

double round_pixels(double value) { return std::round(value * 1e6) / 1e6; }

std::vector<std::string> list_images(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  std::string open = folder;  // what an error is about
  for (; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code broken_link;
    open = (it->is_directory(broken_link) ? it->path() : it->path().parent_path()).string();
    if (name.starts_with(".")) {
      it.disable_recursion_pending();
    } else if (!it->is_directory(broken_link) && has_image_extension(name)) {
      names.push_back(it->path().lexically_relative(folder).string());
    }
  }
  if (error) fail_input("{}: the folder of images cannot be read: {}", open, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_files(const std::string& folder, const std::string& ending) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(".") && name.ends_with(ending)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !is_folder(path);
}

std::string joined(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

std::string first_folder(const std::vector<std::string>& folders) {
  auto found = std::find_if(folders.begin(), folders.end(), is_folder);
  return found == folders.end() ? "" : *found;
}

}  // namespace saccade
