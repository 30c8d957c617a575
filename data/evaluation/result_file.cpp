#include "data/evaluation/result_file.h"

#include <cmath>

#include "data/formats/coco/segmentation_json.h"

namespace saccade {
namespace {

struct Entry : Detection {
  std::string file_name, word, category;
  bool has_id = false, has_category = false, has_box = false, has_segmentation = false, reads_masks = false;
  std::shared_ptr<const Segmentation> segmentation;
  std::string fault;  // of the segmentation
};

bool read_image_id(JsonFile& json, JsonValue value, Entry& e) {
  if (read_integer(json, value, e.image_id)) return e.has_id = true;
  return json.read(value, e.word) && !e.word.empty();
}
bool read_box(JsonFile& json, JsonValue value, Entry& e) { return e.has_box = read_bbox(json, value, e); }

bool read_mask(JsonFile& json, JsonValue value, Entry& e) {
  if (e.reads_masks) e.segmentation = read_segmentation(json, value, e.fault);
  e.has_segmentation = !e.reads_masks || e.segmentation;
  return true;
}

constexpr JsonField<Entry> kFields[] = {
    {"image_id", "an integer", read_image_id, false},
    {"category_id", "an integer",
     [](JsonFile& json, JsonValue v, Entry& e) {
       return e.has_category = read_integer(json, v, e.category_id);
     },
     false},
    {"bbox", kBoxForm, read_box, false},
    {"score", "a finite number", read_member<&Entry::score>},
    {"file_name", "a string", read_member<&Entry::file_name>, false},
    {"category", "a string",
     [](JsonFile& json, JsonValue v, Entry& e) {
       json.read(v, e.category);  // other programs use the field for other things
       return true;
     },
     false},
    {"segmentation", "", read_mask, false}};

}  // namespace

ResultFile::ResultFile(const std::string& path, bool reads_masks) : json_(path), reads_masks_(reads_masks) {
  auto read = [this](JsonValue value) { add(value); };
  // Growing vectors would be copied to newly allocated pages each time. Few entries are shorter.
  constexpr size_t kEntryBytes = 64;
  detections.reserve(json_.size() / kEntryBytes);
  entries.reserve(json_.size() / kEntryBytes);
  if (!json_.root_is_object()) {
    json_.root_elements(read);
    return;
  }
  bool has_list = false;
  std::unordered_map<std::string, std::string> files, categories;
  json_.root_fields([&](std::string_view key, JsonValue value) {
    if (key == "annotations") has_list = json_.elements(value, read);
    if (key == "images") names(value, "file_name", files);
    if (key == "categories") names(value, "name", categories);
  });
  if (!has_list)
    fail_input(
        "{}: the file must hold one JSON array and nothing else, or a COCO dictionary whose annotations have scores",
        path);
  for (size_t i = 0; i < entries.size(); ++i) {
    Listed& e = entries[i];
    const Detection& d = detections[i];
    const auto file = files.find(e.word == kNoName ? std::to_string(d.image_id) : texts.at(e.word));
    if (file != files.end() && e.file_name == kNoName) e.file_name = texts.add(file->second);
    const auto category = categories.find(std::to_string(d.category_id));
    if (e.has_category && category != categories.end() && e.category == kNoName)
      e.category = texts.add(category->second);
  }
}

void ResultFile::add(JsonValue value) {
  const size_t number = entries.size() + 1;
  Entry entry;
  entry.reads_masks = reads_masks_;
  std::string problem = read_record(json_, value, kFields, entry).problem;
  if (problem.empty() && !entry.has_id && entry.word.empty() && entry.file_name.empty())
    problem = "field \"image_id\" is missing";
  if (problem.empty() && !entry.has_category && entry.category.empty()) problem = kNoCategoryId;
  if (problem.empty()) problem = entry.fault;
  if (problem.empty() && !entry.has_box && !entry.has_segmentation)
    problem = reads_masks_ ? "has no segmentation, expected one, as masks are evaluated"
                           : "field \"bbox\" is missing";
  if (const auto& [x, y, w, h] = entry.bbox;
      problem.empty() && !(std::isfinite(x + w) && std::isfinite(y + h) && std::isfinite(w * h)))
    problem = fmt::format("the box [{}, {}, {}, {}] or its area is too large for a 64-bit float", x, y, w, h);
  if (!problem.empty()) fail_input("{}: entry {}: {}", json_.path(), number, problem);
  lacks_boxes_ |= !entry.has_box;
  entries.push_back({entry.has_id, entry.has_category, entry.has_box, texts.add(entry.file_name),
                     texts.add(entry.word), texts.add(entry.category)});
  if (const auto& mask = entry.segmentation) {
    if (mask->polygons.empty())
      entry.mask = {mask, &mask->runs};
    else
      polygons.emplace_back(number - 1, mask);
  }
  detections.push_back(static_cast<Detection&&>(entry));
}

void ResultFile::names(JsonValue value, std::string_view name,
                       std::unordered_map<std::string, std::string>& out) {
  json_.elements(value, [&](JsonValue item) {
    std::string id, text;
    json_.fields(item, [&](std::string_view key, JsonValue v) {
      int64_t number = 0;
      if (key == "id" && !json_.read(v, id) && read_integer(json_, v, number)) id = std::to_string(number);
      if (key == name) json_.read(v, text);
    });
    if (!id.empty() && !text.empty()) out.emplace(id, text);
  });
}

}  // namespace saccade
