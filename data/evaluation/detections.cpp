#include "data/evaluation/detections.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <unordered_map>

#include "core/formats/output_file.h"
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

// Images by their names, and by what is behind the last slash where only one has it.
class ImageNames {
 public:
  explicit ImageNames(const GroundTruth& truth) {
    for (const ImageInfo& image : truth.images) {
      ids_[image.file_name] = image.id;
      const std::string name = image.file_name.substr(image.file_name.rfind('/') + 1);
      const auto [it, is_new] = short_ids_.emplace(name, image.id);
      if (!is_new && it->second != image.id) it->second = kSeveral;
    }
  }
  // What is wrong with the name, or "".
  std::string find(const std::string& name, int64_t& id) const {
    if (const auto whole = ids_.find(name); whole != ids_.end()) {
      id = whole->second;
      return "";
    }
    const auto it = short_ids_.find(name.substr(name.rfind('/') + 1));
    if (it == short_ids_.end())
      return fmt::format("no image of the annotations is called \"{}\"", shortened(name));
    if (it->second == kSeveral)
      return fmt::format("several images of the annotations are called \"{}\"", shortened(name));
    id = it->second;
    return "";
  }

 private:
  static constexpr int64_t kSeveral = INT64_MIN;
  std::unordered_map<std::string, int64_t> ids_, short_ids_;
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
