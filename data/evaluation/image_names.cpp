#include "data/evaluation/image_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/tensor/error.h"

namespace saccade {
namespace {

// Returns the path with the separators of Linux.
std::string plain_path(std::string path) {
  std::replace(path.begin(), path.end(), '\\', '/');
  return path;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string without_extension(const std::string& path) {
  const size_t point = path.rfind('.'), slash = path.rfind('/');
  const bool has_one = point != std::string::npos && (slash == std::string::npos || point > slash + 1);
  return has_one && point > 0 ? path.substr(0, point) : path;
}

// Parses "000012" as 12.
std::optional<int64_t> digits_of(const std::string& text) {
  int64_t number = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// Returns whether the path ends in the other one, at a slash.
bool ends_in(std::string_view path, std::string_view end) {
  return path.ends_with(end) && (path.size() == end.size() || path[path.size() - end.size() - 1] == '/');
}

}  // namespace

ImageNames::ImageNames(const GroundTruth& truth) {
  for (const ImageInfo& image : truth.images) {
    const std::string name = last_part(plain_path(image.file_name));
    by_name_.emplace(name, &image);
    by_stem_.emplace(without_extension(name), &image);
    if (!image.word.empty()) words_.emplace(image.word, image.id);
    ids_.insert(image.id);
    if (!truth.ids_are_places) continue;
    if (const auto number = digits_of(without_extension(name)))
      if (const auto [it, is_new] = numbers_.try_emplace(*number, image.id); !is_new) it->second.reset();
  }
}

std::optional<int64_t> ImageNames::find_number(int64_t number) const {
  const auto it = numbers_.find(number);
  return it == numbers_.end() ? std::nullopt : it->second;
}

std::string ImageNames::find_file(const std::string& name, int64_t& id) {
  const std::string path = plain_path(name);
  return find(by_name_, last_part(path), path, true, id);
}

std::string ImageNames::find_word(const std::string& word, int64_t& id) {
  if (const auto it = words_.find(word); it != words_.end()) {
    id = it->second;
    return "";
  }
  if (const auto number = digits_of(word)) {
    if (const auto named = find_number(*number)) {
      id = *named;
      return "";
    }
    if (std::to_string(*number) == word && ids_.contains(*number)) {
      id = *number;
      return "";
    }
  }
  const std::string path = plain_path(word);
  if (const std::string problem = find(by_name_, last_part(path), path, true, id); problem.empty()) return "";
  return find(by_stem_, last_part(path), path, false, id);
}

std::string ImageNames::find(const Images& images, const std::string& key, const std::string& name,
                             bool with_extension, int64_t& id) {
  const ImageInfo* image = nullptr;
  bool is_exact = false;
  const auto [begin, end] = images.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    std::string own = plain_path(it->second->file_name);
    if (!with_extension) own = without_extension(own);
    if (!ends_in(own, name) && !ends_in(name, own)) continue;
    if (image && own != name && !is_exact)
      return fmt::format("several images of the annotations may be \"{}\"", shortened(name));
    if (!image || own == name) {
      image = it->second;
      is_exact = own == name;
    }
  }
  if (!image) return fmt::format("no image of the annotations is called \"{}\"", shortened(name));
  if (const auto [other, is_new] = names_.emplace(image->id, name); !is_new && other->second != name)
    return fmt::format("\"{}\" and \"{}\" are both the image \"{}\" of the annotations",
                       shortened(other->second), shortened(name), shortened(image->file_name));
  id = image->id;
  return "";
}

}  // namespace saccade
