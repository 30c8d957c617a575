#include "data/evaluation/detections.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "data/evaluation/image_names.h"
#include "data/formats/json_record.h"

namespace saccade {
namespace {

constexpr int64_t kNoName = -1;

// As it stands in the file.
struct Entry : Detection {
  std::string file_name, word, category;  // word: the image_id, where it is a text
  bool has_id = false;
};

// Also takes 42.0, which writers that pass ids through floating arrays leave behind.
bool read_integer(JsonFile& json, JsonValue value, int64_t& id) {
  if (json.read(value, id)) return true;
  double number = 0;
  if (!json.read(value, number) || number != std::floor(number) || std::abs(number) > 0x1p53) return false;
  id = static_cast<int64_t>(number);
  return true;
}
bool read_image_id(JsonFile& json, JsonValue value, Entry& e) {
  if (read_integer(json, value, e.image_id)) return e.has_id = true;
  return json.read(value, e.word) && !e.word.empty();
}

constexpr JsonField<Entry> kFields[] = {
    {"image_id", "an integer", read_image_id, false},
    {"category_id", "an integer",
     [](JsonFile& json, JsonValue v, Entry& e) { return read_integer(json, v, e.category_id); }},
    {"bbox", kBoxForm, read_bbox},
    {"score", "a finite number", read_member<&Entry::score>},
    {"file_name", "a string", read_member<&Entry::file_name>, false},
    {"category", "a string",
     [](JsonFile& json, JsonValue v, Entry& e) {
       json.read(v, e.category);  // others mean other things by it
       return true;
     },
     false}};

// Texts that come again and again, by number.
class Texts {
 public:
  int64_t add(const std::string& text) {
    if (text.empty()) return kNoName;
    const auto [it, is_new] = places_.try_emplace(text, std::ssize(texts_));
    if (is_new) texts_.push_back(text);
    return it->second;
  }
  const std::string& at(int64_t place) const { return texts_.at(static_cast<size_t>(place)); }
  int64_t size() const { return std::ssize(texts_); }

 private:
  std::unordered_map<std::string, int64_t> places_;
  std::vector<std::string> texts_;
};

struct Listed {
  Detection detection;
  bool has_id = false;
  int64_t file_name = kNoName, word = kNoName, category = kNoName;
};

// The entries, with what a dictionary's own lists say about them.
class ResultFile {
 public:
  explicit ResultFile(const std::string& path) : json_(path) {
    auto read = [this](JsonValue value) { add(value); };
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
    for (Listed& e : entries) {
      const auto file =
          files.find(e.word == kNoName ? std::to_string(e.detection.image_id) : texts.at(e.word));
      if (file != files.end() && e.file_name == kNoName) e.file_name = texts.add(file->second);
      const auto category = categories.find(std::to_string(e.detection.category_id));
      if (category != categories.end() && e.category == kNoName) e.category = texts.add(category->second);
    }
  }

  Texts texts;
  std::vector<Listed> entries;

 private:
  void add(JsonValue value) {
    Entry entry;
    std::string problem = read_record(json_, value, kFields, entry).problem;
    if (problem.empty() && !entry.has_id && entry.word.empty() && entry.file_name.empty())
      problem = "field \"image_id\" is missing";
    if (!problem.empty()) fail_input("{}: entry {}: {}", json_.path(), entries.size() + 1, problem);
    entries.push_back(
        {entry, entry.has_id, texts.add(entry.file_name), texts.add(entry.word), texts.add(entry.category)});
  }
  // Of a list of objects with "id": the field `name` by it.
  void names(JsonValue value, std::string_view name, std::unordered_map<std::string, std::string>& out) {
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

  JsonFile json_;
};

void note(std::vector<std::string>* notes, int64_t count, const std::string& text) {
  if (notes != nullptr && count > 0) notes->push_back(text);
}

// Gives each entry the id of the image that it names.
void find_images(const std::string& path, ResultFile& file, const GroundTruth& truth,
                 std::vector<std::string>* notes) {
  std::optional<ImageNames> names;
  struct Found {
    bool is_known = false;
    std::string problem;
    int64_t id = 0;
  };
  std::vector<Found> found(static_cast<size_t>(file.texts.size()));
  int64_t named = 0, other_ids = 0, unknown = 0, first_unknown = kNoName;
  for (size_t i = 0; i < file.entries.size(); ++i) {
    Listed& e = file.entries[i];
    const int64_t name = e.file_name != kNoName ? e.file_name : e.word;
    if (name == kNoName) continue;
    ++named;
    if (!names) names.emplace(truth);
    Found& f = found[static_cast<size_t>(name)];
    if (!f.is_known) {
      f.problem = e.file_name != kNoName ? names->find_file(file.texts.at(name), f.id)
                                         : names->find_word(file.texts.at(name), f.id);
      f.is_known = true;
    }
    if (f.problem.empty()) {
      other_ids += e.has_id && e.detection.image_id != f.id;
      e.detection.image_id = f.id;
    } else if (e.has_id && names->has_id(e.detection.image_id)) {
      if (unknown++ == 0) first_unknown = name;
    } else {
      fail_input("{}: entry {}: {}", path, i + 1, f.problem);
    }
  }
  note(
      notes, other_ids,
      fmt::format(
          "{}: {} of {} entries are of other image ids than the annotations give the files that they name; the "
          "names count",
          path, other_ids, file.entries.size()));
  if (unknown > 0 && unknown == named)
    fail_input(
        "{}: none of the files that its entries name is one of the annotations' (the first is \"{}\"), expected detections in "
        "the same images; without \"file_name\", image_id counts",
        path, shortened(file.texts.at(first_unknown)));
  if (unknown > 0)
    note(notes, unknown,
         fmt::format(
             "{}: {} of {} entries name files that the annotations do not have, as \"{}\"; their image_id "
             "counts",
             path, unknown, file.entries.size(), shortened(file.texts.at(first_unknown))));
}

void note_mapped(const std::string& path, int64_t mapped, size_t count, std::vector<std::string>* notes) {
  note(notes, mapped,
       fmt::format("{}: {} of {} entries are of classes that data.class_map takes for others", path, mapped,
                   count));
}

// Ids of categories that are taken for others become those of these.
void take_mapped_ids(const std::string& path, ResultFile& file, const GroundTruth& truth,
                     std::vector<std::string>* notes) {
  std::unordered_map<int64_t, int64_t> ids = truth.mapped_ids;
  for (const Category& c : truth.categories) ids.erase(c.id);
  int64_t mapped = 0;
  for (Listed& e : file.entries)
    if (const auto it = ids.find(e.detection.category_id); it != ids.end()) {
      e.detection.category_id = it->second;
      ++mapped;
    }
  note_mapped(path, mapped, file.entries.size(), notes);
}

// Gives each entry the id of the category that it names, and leaves out those of categories that are not known, where some are.
void find_categories(const std::string& path, ResultFile& file, const GroundTruth& truth,
                     const ClassChoice& choice, std::vector<std::string>* notes) {
  std::unordered_map<std::string, std::optional<int64_t>> ids;  // nothing: of several
  for (const Category& c : truth.categories)
    if (const auto [it, is_new] = ids.try_emplace(c.name, c.id); !is_new && it->second != c.id)
      it->second.reset();
  const std::unordered_map<std::string, std::optional<int64_t>> own = ids;
  for (const ClassChoice::Mapping& mapping : choice.map)
    if (const auto it = own.find(mapping.as); it != own.end()) ids.try_emplace(mapping.name, it->second);
  int64_t named = 0, first_named = kNoName;
  bool any = false;
  for (const Listed& e : file.entries) {
    if (e.category == kNoName) continue;
    if (named++ == 0) first_named = e.category;
    any = any || ids.contains(file.texts.at(e.category));
  }
  if (!any && named > 0)  // others mean other things by it
    note(
        notes, named,
        fmt::format(
            "{}: {} of {} entries name categories, but none that the annotations have (the first is \"{}\"); "
            "their category_id counts",
            path, named, file.entries.size(), shortened(file.texts.at(first_named))));
  if (!any) return;
  int64_t others = 0, mapped = 0, unknown = 0, first_unknown = kNoName;
  const size_t count = file.entries.size();
  std::erase_if(file.entries, [&](Listed& e) {
    if (e.category == kNoName) return false;
    const auto it = ids.find(file.texts.at(e.category));
    if (it == ids.end()) {
      if (unknown++ == 0) first_unknown = e.category;
      return true;
    }
    if (!it->second) return false;
    (own.contains(it->first) ? others : mapped) += e.detection.category_id != *it->second;
    e.detection.category_id = *it->second;
    return false;
  });
  note(
      notes, others,
      fmt::format(
          "{}: {} of {} entries are of other category ids than the annotations give the categories that they "
          "name; the names count",
          path, others, count));
  note_mapped(path, mapped, count, notes);
  if (unknown > 0)
    note(notes, unknown,
         fmt::format("{}: {} of {} entries left out: their category (\"{}\") is not in the annotations", path,
                     unknown, count, shortened(file.texts.at(first_unknown))));
}

}  // namespace

std::vector<Detection> read_detections(const std::string& path, const GroundTruth* truth,
                                       std::vector<std::string>* notes, const ClassChoice& choice) {
  ResultFile file(path);
  if (truth != nullptr) {
    find_images(path, file, *truth, notes);
    find_categories(path, file, *truth, choice, notes);
    take_mapped_ids(path, file, *truth, notes);
  }
  std::vector<Detection> detections;
  detections.reserve(file.entries.size());
  for (const Listed& e : file.entries) {
    if (truth == nullptr && !e.has_id)
      fail_input("{}: entry {}: field \"image_id\" {}", path, detections.size() + 1,
                 e.word == kNoName ? "is missing" : "must be an integer");
    detections.push_back(e.detection);
  }
  return detections;
}

void write_detections(const std::string& path, std::span<const Detection> detections,
                      const GroundTruth* truth) {
  // As they are written.
  std::unordered_map<int64_t, std::string> images, categories;
  if (truth != nullptr) {
    for (const ImageInfo& i : truth->images)
      images.emplace(
          i.id, fmt::format("{},\"file_name\":{}", i.word.empty() ? std::to_string(i.id) : json_quote(i.word),
                            json_quote(i.file_name)));
    for (const Category& c : truth->categories)
      categories.emplace(c.id, fmt::format("{},\"category\":{}", c.id, json_quote(c.name)));
  }
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  auto add_named = [&](const std::unordered_map<int64_t, std::string>& names, int64_t id) {
    const auto it = names.find(id);
    if (it != names.end())
      text.append(std::string_view(it->second));
    else
      fmt::format_to(out, "{}", id);
  };
  text.push_back('[');
  for (size_t i = 0; i < detections.size(); ++i) {
    const Detection& d = detections[i];
    SACCADE_CHECK(std::isfinite(d.score) && std::isfinite(d.bbox[0] + d.bbox[1] + d.bbox[2] + d.bbox[3]),
                  "[detections] entry {} of image {} is not finite", i, d.image_id);
    text.append(std::string_view(i == 0 ? "{\"image_id\":" : ",\n{\"image_id\":"));
    add_named(images, d.image_id);
    text.append(std::string_view(",\"category_id\":"));
    add_named(categories, d.category_id);
    fmt::format_to(out, ",\"bbox\":[{},{},{},{}],\"score\":{}}}", d.bbox[0], d.bbox[1], d.bbox[2], d.bbox[3],
                   d.score);
  }
  text.push_back(']');
  text.push_back('\n');
  write_file(path, std::string_view(text.data(), text.size()));
}

}  // namespace saccade
