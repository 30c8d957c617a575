#include "data/evaluation/detections.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/files/output_file.h"
#include "data/formats/json_record.h"

namespace saccade {
namespace {

// As it stands in the file.
struct Entry : Detection {
  std::string file_name;
  bool has_id = false;
};

// Also takes 42.0, which writers that pass ids through floating arrays leave behind.
template <auto kId>
bool read_id(JsonFile& json, JsonValue value, Entry& e) {
  if (json.read(value, e.*kId)) return true;
  double number = 0;
  if (!json.read(value, number) || number != std::floor(number) || std::abs(number) > 0x1p53) return false;
  e.*kId = static_cast<int64_t>(number);
  return true;
}
bool read_image_id(JsonFile& json, JsonValue value, Entry& e) {
  e.has_id = true;
  return read_id<&Entry::image_id>(json, value, e);
}

constexpr JsonField<Entry> kFields[] = {{"image_id", "an integer", read_image_id, false},
                                        {"category_id", "an integer", read_id<&Entry::category_id>},
                                        {"bbox", kBoxForm, read_bbox},
                                        {"score", "a finite number", read_member<&Entry::score>},
                                        {"file_name", "a string", read_member<&Entry::file_name>, false}};

// Whether one of two paths ends in the other, at a slash.
bool ends_in(std::string_view path, std::string_view end) {
  return path.ends_with(end) && (path.size() == end.size() || path[path.size() - end.size() - 1] == '/');
}

// Images by the names that lists of detections give them: a path, of which one or the other may lack its first folders.
class ImageNames {
 public:
  explicit ImageNames(const GroundTruth& truth) {
    for (const ImageInfo& image : truth.images) images_.emplace(last_part(image.file_name), &image);
  }
  // What is wrong with the name, or "".
  std::string find(const std::string& name, int64_t& id) {
    if (const auto known = found_.find(name); known != found_.end()) {
      id = known->second;
      return "";
    }
    const ImageInfo* image = nullptr;
    auto [begin, end] = images_.equal_range(last_part(name));
    for (auto it = begin; it != end; ++it) {
      const std::string& own = it->second->file_name;
      if (!ends_in(own, name) && !ends_in(name, own)) continue;
      if (image && own != name && image->file_name != name)
        return fmt::format("several images of the annotations may be \"{}\"", shortened(name));
      if (!image || own == name) image = it->second;
    }
    if (!image) return fmt::format("no image of the annotations is called \"{}\"", shortened(name));
    if (const auto [other, is_new] = names_.emplace(image->id, name); !is_new)
      return fmt::format("\"{}\" and \"{}\" are both the image \"{}\" of the annotations",
                         shortened(other->second), shortened(name), shortened(image->file_name));
    found_.emplace(name, id = image->id);
    return "";
  }

 private:
  static std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  std::unordered_multimap<std::string, const ImageInfo*> images_;
  std::unordered_map<std::string, int64_t> found_;
  std::unordered_map<int64_t, std::string> names_;  // by which images were found
};

}  // namespace

std::vector<Detection> read_detections(const std::string& path, const GroundTruth* truth) {
  JsonFile json(path);
  std::vector<Detection> detections;
  std::optional<ImageNames> names;
  json.root_elements([&](JsonValue value) {
    Entry entry;
    std::string problem = read_record(json, value, kFields, entry).problem;
    if (problem.empty() && !entry.has_id) {
      problem = "field \"image_id\" is missing";
      if (truth != nullptr && !entry.file_name.empty()) {
        if (!names) names.emplace(*truth);
        problem = names->find(entry.file_name, entry.image_id);
      }
    }
    if (!problem.empty()) fail_input("{}: entry {}: {}", path, detections.size() + 1, problem);
    detections.push_back(entry);
  });
  return detections;
}

void write_detections(const std::string& path, std::span<const Detection> detections) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  text.push_back('[');
  for (size_t i = 0; i < detections.size(); ++i) {
    const Detection& d = detections[i];
    SACCADE_CHECK(std::isfinite(d.score) && std::isfinite(d.bbox[0] + d.bbox[1] + d.bbox[2] + d.bbox[3]),
                  "[detections] entry {} of image {} is not finite", i, d.image_id);
    fmt::format_to(out, "{}{{\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"score\":{}}}",
                   i == 0 ? "" : ",\n", d.image_id, d.category_id, d.bbox[0], d.bbox[1], d.bbox[2], d.bbox[3],
                   d.score);
  }
  text.push_back(']');
  text.push_back('\n');
  write_file(path, std::string_view(text.data(), text.size()));
}

}  // namespace saccade
