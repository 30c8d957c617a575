#include "data/formats/yolo/yolo_sets.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/files/unicode_forms.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Caches the files of folders for thousands of queries: each folder is read once, when first needed.
class KnownFiles {
 public:
  // Like is_file for a file of the folder.
  bool has(const std::string& folder, const std::string& name) {
    const auto [it, is_new] = folders_.try_emplace(folder);
    if (is_new) {
      std::error_code error;
      fs::directory_iterator entry(folder.empty() ? "." : folder, error);
      for (; !error && entry != fs::directory_iterator(); entry.increment(error))
        if (std::error_code broken_link; entry->is_regular_file(broken_link) ||
                                         (!entry->is_directory(broken_link) && entry->exists(broken_link)))
          it->second.insert(entry->path().filename().string());
    }
    return it->second.contains(name);
  }
  bool has(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return has("", path);
    return has(slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1));
  }

 private:
  std::unordered_map<std::string, std::unordered_set<std::string>> folders_;
};

constexpr FileKind kLabelHead{"a file of YOLO labels", uint64_t{64} << 20};

// Removes prefixes that exporters write although the named file is next to the one that names it.
std::string without_prefix(std::string name) {
  for (const std::string_view prefix : {"../", "./", "data/"})
    while (name.starts_with(prefix)) name.erase(0, prefix.size());
  return name;
}

template <class Exists>
std::string first_place(const std::vector<std::string>& folders, const std::string& name, Exists exists) {
  for (const std::string& spelled : writings_of(name))
    for (const std::string& one : {spelled, without_prefix(spelled)})
      for (const std::string& folder : folders)
        if (!one.empty() && exists(joined(folder, one))) return joined(folder, one);
  return "";
}

// Replaces the last folder "images", or else "JPEGImages", by "labels"; "" if there is none.
std::string as_labels(const fs::path& images) {
  std::vector<fs::path> parts;
  for (const fs::path& part : normal_path(images)) parts.push_back(part);
  for (const char* name : {"images", "JPEGImages"}) {
    auto last = std::find(parts.rbegin(), parts.rend(), fs::path(name));
    if (last == parts.rend()) continue;
    *last = "labels";
    fs::path labels;
    for (const fs::path& part : parts) labels /= part;
    return labels.string();
  }
  return "";
}

// Returns whether a line starts with five numbers.
bool is_label_line(std::string_view line) {
  int numbers = 0;
  while (!line.empty() && numbers < 5) {
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    if (!finite_number(line.substr(0, end))) return false;
    ++numbers;
    line = trimmed(line.substr(end));
  }
  return numbers == 5;
}

// Returns whether the file is empty or starts with such a line.
bool looks_like_labels(const std::string& path) {
  const std::vector<TextLine> lines = text_lines(head_of(path, kLabelHead));
  return lines.empty() || is_label_line(lines[0].text);
}

// Finds the labels of one image after another.
class LabelSearch {
 public:
  explicit LabelSearch(const std::string& root) : root_(root) {}

  std::string run(const YoloImage& image) {
    const std::string path = joined(root_, image.name);
    if (const std::string& labels = labels_of(image.folder); !labels.empty())
      if (std::string found = text_of(joined(labels, name_in_source(path, image))); !found.empty())
        return found;
    const std::string folder = parent_of(path), &own = labels_of(folder);
    if (!own.empty())
      if (std::string found = text_of(joined(own, path.substr(path.rfind('/') + 1))); !found.empty())
        return found;
    std::string beside = text_of(path);
    // Next to images whose labels have a folder, there may be texts of another kind.
    const bool has_folder = !own.empty() && (is_folder(own) || !label_folder(image.folder).empty());
    return beside.empty() || !has_folder || looks_like_labels(beside) ? beside : "";
  }

 private:
  const std::string& labels_of(const std::string& folder) {
    const auto [it, is_new] = labels_.try_emplace(folder);
    if (is_new) it->second = as_labels(folder);
    return it->second;
  }
  std::string name_in_source(const std::string& path, const YoloImage& image) const {
    return image.folder == root_ ? image.name : name_below(path, image.folder);
  }
  // Returns the text file with this ending or with that of Windows; "" if there is none.
  std::string text_of(const std::string& image) {
    const size_t slash = image.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
    const std::string folder = image.substr(0, begin > 1 ? begin - 1 : begin), name = image.substr(begin),
                      stem = name.substr(0, name.rfind('.') == 0 ? name.size() : name.rfind('.'));
    for (const std::string& spelled : spellings_of(stem))
      for (const char* ending : {".txt", ".TXT"})
        if (files_.has(folder, spelled + ending)) return image.substr(0, begin) + spelled + ending;
    return "";
  }

  std::string root_;
  KnownFiles files_;
  std::map<std::string, std::string> labels_;  // by folder of images
};

}  // namespace

std::string existing_place(const std::string& file, const std::string& path, const std::string& name) {
  const std::string beside = parent_of(file);
  return first_place({joined(beside, path), beside}, name,
                     [](const std::string& place) { return is_folder(place) || is_file(place); });
}

std::vector<YoloSource> sources_of(const YoloYaml& set, const std::string& file, const std::string& split) {
  std::vector<YoloSource> sources;
  const auto entries = set.splits.find(split);
  if (entries == set.splits.end()) return sources;
  for (const YoloEntry& entry : entries->second) {
    const std::string place = existing_place(file, set.path, entry.text);
    if (place.empty())
      fail_input("{}: line {}: {}: \"{}\": no such folder or list of images", file, entry.line, split,
                 entry.text);
    const bool is_list = is_file(place);
    if (is_list && lower_extension(place) != ".txt")
      fail_input("{}: line {}: {}: \"{}\": expected a folder of images or a list of them (.txt)", file,
                 entry.line, split, entry.text);
    sources.push_back({place, is_list});
  }
  return sources;
}

std::string common_root(const std::vector<YoloSource>& sources, const YoloYaml& set,
                        const std::string& file) {
  if (sources.size() == 1 && !sources[0].is_list) return sources[0].place;
  std::vector<std::string> folders;
  bool has_list = false;
  for (const YoloSource& source : sources) {
    folders.push_back(source.is_list ? parent_of(source.place) : source.place);
    has_list = has_list || source.is_list;
  }
  if (has_list) {
    const std::string root = joined(parent_of(file), set.path);
    folders.push_back(is_folder(root) ? root : parent_of(file));
  }
  return common_folder(folders);
}

YoloImages images_of(const std::vector<YoloSource>& sources, const std::string& root, const YoloYaml& set,
                     const std::string& file) {
  YoloImages out{.root = root, .images = {}, .listings = {}, .notes = {}, .links = {}, .lists = {}};
  if (!set.path.empty() && !is_folder(joined(parent_of(file), set.path)))
    out.notes.push_back(
        fmt::format("path: \"{}\" is not a folder here; names are relative to the file", set.path));
  std::unordered_set<std::string> seen;
  KnownFiles known;
  int64_t repeats = 0;
  std::string first_repeat;
  auto add = [&](const std::string& name, const std::string& folder, int64_t line = 0) {
    if (seen.insert(name).second) {
      out.images.push_back({name, folder, line > 0 ? out.lists.size() : 0, line});
    } else if (++repeats == 1) {
      first_repeat = name;
    }
  };
  for (const YoloSource& source : sources) {
    if (source.is_list) {
      out.lists.push_back(source.place);
      const std::vector<std::string> folders{parent_of(source.place), joined(parent_of(file), set.path),
                                             parent_of(file)};
      for (const TextLine& line : text_lines(read_text(source.place, kTextFile))) {
        std::string place =
            first_place(folders, line.text, [&](const std::string& one) { return known.has(one); });
        if (place.empty()) place = joined(folders[0], line.text);  // the check of images reports it
        add(name_below(place, root), root, line.number);
      }
      continue;
    }
    FolderListing listing = list_tree(source.place);
    auto below = [&](const std::string& name) {
      return source.place == root ? name : name_below(joined(source.place, name), root);
    };
    for (const std::string& name : listing.images) add(below(name), source.place);
    for (const std::string& link : listing.links) out.links.push_back(below(link));
    // One of several folders may itself be a link.
    if (source.place != root && kind_of_link(root, source.place) != LinkKind::kInside) {
      out.links.push_back(name_below(source.place, root));
      out.notes.push_back(notes_on_links({out.links.back()}, {}, root)[0]);
    }
    for (std::string& note : notes_on_listing(listing, source.place)) out.notes.push_back(std::move(note));
    out.listings.emplace_back(source.place, std::move(listing));
  }
  if (repeats > 0)
    out.notes.push_back(fmt::format("{} named more than once and {} once, for example {}",
                                    count_of(repeats, "image is", "images are"),
                                    repeats == 1 ? "counts" : "count", first_repeat));
  return out;
}

std::string label_folder(const std::string& images) {
  const std::string labels = as_labels(images);
  return !labels.empty() && is_folder(labels) ? labels : "";
}

std::vector<std::string> label_files(const YoloImages& images) {
  LabelSearch search(images.root);
  std::vector<std::string> files;
  for (const YoloImage& image : images.images) files.push_back(search.run(image));
  return files;
}

std::string expected_label_file(const std::string& root, const YoloImage& image) {
  const fs::path path = fs::path(root) / image.name;
  const std::string folder = path.parent_path().string(), own = as_labels(folder);
  const bool is_beside = own.empty() || (!is_folder(own) && !list_files(folder, ".txt").empty());
  const fs::path label = is_beside ? path : fs::path(own) / path.filename();
  return fs::path(label).replace_extension(".txt").string();
}

bool is_label_file(const std::string& path) {
  if (is_class_list(path)) return false;
  const std::vector<TextLine> lines = text_lines(head_of(path, kLabelHead));
  return !lines.empty() && is_label_line(lines[0].text);
}

std::vector<std::string> labels_without_image(const YoloImages& images,
                                              const std::vector<std::string>& used) {
  std::set<std::string> known, found;
  for (const std::string& path : used) known.insert(normal_path(path).string());
  auto look = [&](const std::string& folder, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::string path = normal_path(joined(folder, text)).string();
      if (!known.contains(path) && !is_class_list(path) && looks_like_labels(path)) found.insert(path);
    }
  };
  for (const auto& [folder, listing] : images.listings) {
    look(folder, listing.texts);
    if (const std::string labels = label_folder(folder); !labels.empty())
      look(labels, list_tree(labels).texts);
  }
  return {found.begin(), found.end()};
}

}  // namespace saccade
