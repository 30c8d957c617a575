#include "data/formats/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/tensor/error.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Calls visit(name relative to the folder, whether it is a link to a folder) for all that is not hidden; folders are gone into. Returns
// what is wrong, where the folder cannot be read; visit ends the walk with false.
template <class Visit>
std::string walk_tree(const std::string& folder, Visit visit) {
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  std::string open = folder;  // what an error is about
  for (; !error && it != end; it.increment(error)) {
    std::error_code broken_link;
    const bool is_directory = it->is_directory(broken_link);
    open = (is_directory ? it->path() : it->path().parent_path()).string();
    if (it->path().filename().string().starts_with(".")) {
      it.disable_recursion_pending();
      continue;
    }
    const bool is_link = is_directory && it->is_symlink(broken_link);
    if (is_directory && !is_link) continue;
    if (!visit(it->path().lexically_relative(folder).string(), is_link)) return "";
  }
  return error ? fmt::format("{}: the folder of images cannot be read: {}", open, error.message()) : "";
}

}  // namespace

FolderListing list_tree(const std::string& folder) {
  FolderListing listing;
  const std::string problem = walk_tree(folder, [&](const std::string& name, bool is_link) {
    if (is_link)
      listing.links.push_back(name);
    else if (has_image_extension(name))
      listing.images.push_back(name);
    else if (has_foreign_image_extension(name))
      listing.foreign.push_back(name);
    else if (lower_extension(name) == ".txt")
      listing.texts.push_back(name);
    return true;
  });
  if (!problem.empty()) fail_input("{}", problem);
  for (auto* names : {&listing.images, &listing.foreign, &listing.links, &listing.texts})
    std::sort(names->begin(), names->end());
  return listing;
}

std::vector<std::string> notes_on_listing(const FolderListing& listing, const std::string& folder) {
  std::vector<std::string> notes;
  if (const auto n = std::ssize(listing.foreign); n > 0)
    notes.push_back(fmt::format("{} in {} {} of a type that is not read (expected {}) and left out, first {}",
                                count_of(n, "image", "images"), folder, n == 1 ? "is" : "are", kImageFormats,
                                listing.foreign.front()));
  if (const auto n = std::ssize(listing.links); n > 0)
    notes.push_back(fmt::format("{} in {} {} not followed, first {}",
                                count_of(n, "link to a folder", "links to folders"), folder,
                                n == 1 ? "is" : "are", listing.links.front()));
  return notes;
}

std::vector<std::string> list_images(const std::string& folder) { return list_tree(folder).images; }

std::vector<std::string> list_files(const std::string& folder, const std::string& ending) {
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

std::vector<std::string> list_files_below(const std::string& folder, const std::string& ending) {
  std::vector<std::string> names;
  const std::string problem = walk_tree(folder, [&](const std::string& name, bool is_link) {
    if (!is_link && name.ends_with(ending)) names.push_back(name);
    return true;
  });
  if (!problem.empty()) fail_input("{}", problem);
  std::sort(names.begin(), names.end());
  return names;
}

bool has_files_below(const std::string& folder, const std::string& ending) {
  bool found = false;
  walk_tree(folder, [&](const std::string& name, bool is_link) {
    found = !is_link && name.ends_with(ending);
    return !found;
  });
  return found;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && !is_folder(path);
}

std::string joined(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

fs::path normal_path(const fs::path& path) {
  fs::path out = path.lexically_normal();
  if (!out.has_filename() && out.has_parent_path() && out != out.root_path()) out = out.parent_path();
  return out;
}

std::string common_folder(const std::vector<std::string>& folders) {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) paths.push_back(normal_path(folder));
  auto goes_up = [](const fs::path& p) { return !p.empty() && *p.begin() == ".."; };
  const bool is_mixed = std::any_of(paths.begin(), paths.end(), goes_up) ||
                        std::any_of(paths.begin(), paths.end(), [&](const fs::path& p) {
                          return p.is_absolute() != paths[0].is_absolute();
                        });
  fs::path common;
  for (fs::path& path : paths) {
    if (is_mixed) path = normal_path(fs::absolute(path));
    if (path == ".") return ".";
    if (&path == &paths[0]) {
      common = path;
      continue;
    }
    fs::path both;
    for (auto a = common.begin(), b = path.begin(); a != common.end() && b != path.end() && *a == *b;
         ++a, ++b)
      both /= *a;
    common = both;
  }
  return common.empty() ? "." : common.string();
}

std::string name_below(const std::string& path, const std::string& root) {
  fs::path file = normal_path(path);
  if (fs::path(root).is_absolute() && !file.is_absolute()) file = normal_path(fs::absolute(file));
  auto inside = [&](const fs::path& folder) -> std::string {
    const fs::path below = file.lexically_relative(normal_path(folder));
    return below.empty() || *below.begin() == ".." ? "" : below.string();
  };
  std::string name = inside(root);
  std::error_code error;
  if (name.empty() && file.is_absolute()) name = inside(fs::absolute(root, error));
  if (name.empty() && file.is_absolute()) name = inside(fs::canonical(root, error));
  if (!name.empty()) return name;
  return file.is_absolute() ? file.string() : file.lexically_relative(normal_path(root)).string();
}

std::string first_folder(const std::vector<std::string>& folders) {
  auto found = std::find_if(folders.begin(), folders.end(), is_folder);
  return found == folders.end() ? "" : *found;
}

std::string folder_of(const std::vector<std::string>& folders, const std::string& file) {
  if (!file.empty())
    for (const std::string& folder : folders)
      if (is_file(joined(folder, file)) || is_file(joined(folder, with_slashes(folder, file)))) return folder;
  return first_folder(folders);
}

std::string with_slashes(const std::string& folder, const std::string& name) {
  if (name.find('\\') == std::string::npos || name.find('\0') != std::string::npos ||
      is_file(joined(folder, name)))
    return name;
  std::string other = name;
  std::replace(other.begin(), other.end(), '\\', '/');
  return is_file(joined(folder, other)) ? other : name;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string_view without_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

std::vector<TextLine> text_lines(std::string_view text) {
  std::vector<TextLine> lines;
  text = without_mark(text);
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (const std::string_view line = trimmed(text.substr(0, end)); !line.empty())
      lines.push_back({number, std::string(line)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string count_of(int64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace saccade
