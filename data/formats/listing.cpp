#include "data/formats/listing.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "core/files/text.h"
#include "core/files/unicode_forms.h"
#include "core/tensor/error.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Returns whether the folder is inside the other one or equals it. Both are absolute and without links.
bool lies_in(const fs::path& folder, const fs::path& other) {
  const fs::path below = folder.lexically_relative(other);
  return !below.empty() && *below.begin() != "..";
}

// Calls visit(name relative to the folder) for each file in it that is not hidden; visit ends the walk by
// returning false. Links to folders are followed after everything else, so that a file that is reached twice
// counts once, under its own name.
class TreeWalk {
 public:
  explicit TreeWalk(const std::string& folder) : folder_(folder) {}

  // Returns an error text if a folder cannot be read.
  template <class Visit>
  std::string run(Visit visit) {
    std::vector<std::string> links;
    bool goes_on = true;
    std::string problem = walk("", links, visit, goes_on);
    while (problem.empty() && goes_on && !links.empty()) {
      std::vector<std::string> wave;
      wave.swap(links);
      std::sort(wave.begin(), wave.end());
      for (const std::string& link : wave) {
        const LinkKind kind = kind_of_link(folder_, joined(folder_, link));
        if (kind == LinkKind::kAround) around_.push_back(link);
        if (kind == LinkKind::kAround || !entered_.insert(identity_of(joined(folder_, link))).second)
          continue;
        if (kind == LinkKind::kOutside) outside_.push_back(link);
        if (problem.empty() && goes_on) problem = walk(link, links, visit, goes_on);
      }
    }
    return problem;
  }
  std::vector<std::string> outside() { return std::move(outside_); }  // links to other places
  std::vector<std::string> around() { return std::move(around_); }    // links that are not followed

 private:
  template <class Visit>
  std::string walk(const std::string& below, std::vector<std::string>& links, Visit visit, bool& goes_on) {
    std::error_code error;
    const fs::path begin = below.empty() ? fs::path(folder_) : fs::path(folder_) / below;
    entered_.insert(identity_of(begin));
    fs::recursive_directory_iterator it(begin, error), end;
    std::string open = begin.string();  // the subject of an error
    const size_t prefix = open.size() + (open.ends_with("/") ? 0 : 1);
    const std::string own = below.empty() ? "" : below + "/";
    for (; !error && it != end; it.increment(error)) {
      std::error_code broken_link;
      const bool is_directory = it->is_directory(broken_link);
      open = (is_directory ? it->path() : it->path().parent_path()).string();
      if (it->path().filename().string().starts_with(".")) {
        it.disable_recursion_pending();
        continue;
      }
      const std::string name = own + it->path().string().substr(prefix);
      if (is_directory && it->is_symlink(broken_link)) {
        links.push_back(name);
      } else if (lower_extension(name).empty() && !fs::exists(it->status(broken_link))) {
        around_.push_back(name);  // a missing folder, for example on an unmounted disk
      } else if (is_directory) {
        if (!entered_.insert(identity_of(it->path())).second) it.disable_recursion_pending();
      } else if (!visit(name)) {
        goes_on = false;
        return "";
      }
    }
    return error ? fmt::format("{}: the folder of images cannot be read: {}", open, error.message()) : "";
  }

  std::string folder_;
  std::set<FileIdentity> entered_;
  std::vector<std::string> outside_, around_;
};

// Judges by the content.
bool is_image(const std::string& path) {
  try {
    return image_size(path).width > 0;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

FileIdentity identity_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? FileIdentity{info.st_dev, info.st_ino} : FileIdentity{};
}

LinkKind kind_of_link(const std::string& folder, const std::string& link) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error), root = fs::canonical(folder, error);
  if (lies_in(target, root)) return LinkKind::kInside;
  return lies_in(root, target) ? LinkKind::kAround : LinkKind::kOutside;
}

FolderListing list_tree(const std::string& folder, double seconds) {
  FolderListing listing;
  const auto begin = std::chrono::steady_clock::now();
  int64_t seen = 0;
  TreeWalk walk(folder);
  const std::string problem = walk.run([&](const std::string& name) {
    if (has_image_extension(name))
      listing.images.push_back(name);
    else if (has_foreign_image_extension(name))
      listing.foreign.push_back(name);
    else if (lower_extension(name) == ".txt")
      listing.texts.push_back(name);
    else if (lower_extension(name).empty() && is_image(joined(folder, name)))
      listing.bare.push_back(name);
    if (++seen % 1024 == 0)
      listing.is_whole =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <= seconds;
    return listing.is_whole;
  });
  if (!problem.empty()) fail_input("{}", problem);
  listing.links = walk.outside();
  listing.around = walk.around();
  for (auto* names :
       {&listing.images, &listing.foreign, &listing.bare, &listing.links, &listing.around, &listing.texts})
    std::sort(names->begin(), names->end());
  return listing;
}

std::vector<std::string> notes_on_listing(const FolderListing& listing, const std::string& folder) {
  std::vector<std::string> notes = notes_on_links(listing.links, listing.around, folder);
  if (const auto n = std::ssize(listing.foreign); n > 0)
    notes.push_back(
        fmt::format("{} in {} {} of an unsupported type (expected {}) and left out, for example {}",
                    count_of(n, "image", "images"), folder, n == 1 ? "is" : "are", kImageFormats,
                    listing.foreign.front()));
  if (const auto n = std::ssize(listing.bare); n > 0)
    notes.push_back(fmt::format("{} in {} {} no extension like .jpg and {} left out, for example {}",
                                count_of(n, "image", "images"), folder, n == 1 ? "has" : "have",
                                n == 1 ? "is" : "are", listing.bare.front()));
  return notes;
}

std::vector<std::string> notes_on_links(const std::vector<std::string>& links,
                                        const std::vector<std::string>& around, const std::string& folder) {
  std::vector<std::string> notes;
  std::error_code error;
  if (const auto n = std::ssize(links); n > 0)
    notes.push_back(fmt::format("{} in {} {} out of it and {} followed, for example {} (to {})",
                                count_of(n, "link to a folder", "links to folders"), folder,
                                n == 1 ? "leads" : "lead", n == 1 ? "is" : "are", links.front(),
                                fs::canonical(joined(folder, links.front()), error).string()));
  if (const auto n = std::ssize(around); n > 0)
    notes.push_back(fmt::format(
        "{} in {} {} to a folder that contains it, or nowhere, and {} not followed, for example {}",
        count_of(n, "link to a folder", "links to folders"), folder, n == 1 ? "leads" : "lead",
        n == 1 ? "is" : "are", around.front()));
  return notes;
}

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

std::vector<std::string> list_files_below(const std::string& folder, const std::string& ending,
                                          std::vector<std::string>* links, std::vector<std::string>* around) {
  std::vector<std::string> names;
  TreeWalk walk(folder);
  const std::string problem = walk.run([&](const std::string& name) {
    if (name.ends_with(ending)) names.push_back(name);
    return true;
  });
  if (!problem.empty()) fail_input("{}", problem);
  if (links != nullptr) *links = walk.outside();
  if (around != nullptr) *around = walk.around();
  std::sort(names.begin(), names.end());
  return names;
}

bool has_files_below(const std::string& folder, const std::string& ending) {
  bool found = false;
  TreeWalk(folder).run([&](const std::string& name) {
    found = name.ends_with(ending);
    return !found;
  });
  return found;
}

bool holds_image(const std::string& folder) {
  constexpr int64_t kLookedAt = 100'000;
  bool found = false;
  int64_t seen = 0;
  TreeWalk(folder).run([&](const std::string& name) {
    found = has_image_extension(name);
    return !found && ++seen < kLookedAt;
  });
  return found;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error))
    if (const std::string name = it->path().filename().string();
        !name.starts_with(".") && is_folder(it->path().string()))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
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

std::string RealPaths::of(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = path.substr(slash == path.npos ? 0 : slash + 1);
  if (name.empty() || name == "." || name == "..") {
    const fs::path plain = normal_path(fs::absolute(path));
    return plain.has_filename() ? of(plain.string()) : plain.string();
  }
  const std::string folder = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const auto [it, is_new] = folders_.try_emplace(folder);
  if (is_new) {
    std::error_code error;
    it->second = fs::weakly_canonical(folder, error).string();
    if (error) it->second = normal_path(fs::absolute(folder)).string();
  }
  return it->second == "/" ? "/" + name : it->second + "/" + name;
}

std::string common_folder(const std::vector<std::string>& folders) {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) paths.push_back(normal_path(folder));
  auto goes_up = [](const fs::path& p) { return !p.empty() && *p.begin() == ".."; };
  auto is_other = [&](const fs::path& p) { return p.is_absolute() != paths[0].is_absolute(); };
  const bool is_mixed = std::ranges::any_of(paths, goes_up) || std::ranges::any_of(paths, is_other);
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
  // A path directly below it, without parts that are empty, "." or "..".
  if (path.size() > root.size() + 1 && path.starts_with(root) && path[root.size()] == '/' && !root.empty()) {
    std::string name = path.substr(root.size() + 1);
    if (("/" + name + "/").find("/.") == std::string::npos && name.find("//") == std::string::npos &&
        !name.starts_with("/") && !name.ends_with("/"))
      return name;
  }
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
      if (is_folder(folder) && is_file(joined(folder, name_in(folder, file)))) return folder;
  return first_folder(folders);
}

std::string image_called(const std::string& folder, const std::string& stem) {
  for (const std::string& spelled : spellings_of(stem))
    for (const std::string_view extension : image_extensions()) {
      std::string capitals(extension);
      for (char& c : capitals)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');  // in every locale
      for (const std::string_view ending : {extension, std::string_view(capitals)})
        if (std::string name = spelled + std::string(ending); is_file(joined(folder, name))) return name;
    }
  return "";
}

std::vector<std::string> writings_of(const std::string& name) {
  std::vector<std::string> names = spellings_of(name);
  if (name.find('\\') == std::string::npos) return names;
  std::string slashes = name;
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  for (std::string& other : spellings_of(slashes)) names.push_back(std::move(other));
  return names;
}

std::string name_in(const std::string& folder, const std::string& name) {
  const std::vector<std::string> names = writings_of(name);
  if (names.size() == 1 || name.find('\0') != std::string::npos) return name;
  const auto found = std::ranges::find_if(names, [&](auto& other) { return is_file(joined(folder, other)); });
  return found == names.end() ? name : *found;
}

std::string head_of(const std::string& path, const FileKind& kind, uint64_t bytes) {
  try {
    const InputFile file(path, kind);
    std::string head(std::min(file.size(), bytes), '\0');
    if (!head.empty()) file.read_at(head.data(), head.size(), 0);
    return with_line_feeds(std::move(head));
  } catch (const InputError&) {
    return "";
  }
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

}  // namespace saccade
