#include "data/formats/coco_json.h"

#include <algorithm>

#include "core/formats/json.h"

namespace saccade {
namespace {

constexpr int64_t kMaxSide = 1 << 20;

// The fields of one record: which were seen, which had a wrong form. The id may come last in the file, so
// problems are put into words only when the record is complete.
class Record {
 public:
  Record(const char* kind, size_t index) : kind_(kind), index_(index) {}

  // Notes the outcome of reading a required field.
  void saw(std::string_view name, bool ok, const char* expected) {
    seen_.push_back(name);
    if (!ok && problem_.empty()) problem_ = fmt::format("field \"{}\" must be {}", name, expected);
  }
  void saw_id(bool ok, int64_t id) {
    saw("id", ok, "an integer");
    if (ok) label_ = fmt::format("{} {}", kind_, id);
  }
  void require(std::string_view name) {
    if (problem_.empty() && std::find(seen_.begin(), seen_.end(), name) == seen_.end()) {
      problem_ = fmt::format("field \"{}\" is missing", name);
    }
  }
  void fault(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  // Reports the first problem; true when there was none.
  bool finish(const ProblemReport& report) const {
    if (problem_.empty()) return true;
    report(fmt::format("{}: {}",
                       label_.empty() ? fmt::format("{} number {} of the list", kind_, index_ + 1) : label_,
                       problem_));
    return false;
  }

 private:
  const char* kind_;
  size_t index_;
  std::string label_, problem_;
  std::vector<std::string_view> seen_;  // string literals only
};

bool read_image(JsonFile& json, JsonValue value, ImageInfo& image, Record& record) {
  bool is_object = json.fields(value, [&](std::string_view key, JsonValue v) {
    if (key == "id") {
      bool ok = json.read(v, image.id);
      record.saw_id(ok, image.id);
    } else if (key == "file_name") {
      record.saw("file_name", json.read(v, image.file_name) && !image.file_name.empty(), "a file's name");
    } else if (key == "width") {
      record.saw("width", json.read(v, image.width) && image.width > 0 && image.width <= kMaxSide,
                 "a positive count of pixels");
    } else if (key == "height") {
      record.saw("height", json.read(v, image.height) && image.height > 0 && image.height <= kMaxSide,
                 "a positive count of pixels");
    }
  });
  if (is_object) {
    for (const char* name : {"id", "file_name", "width", "height"}) record.require(name);
  }
  return is_object;
}

bool read_bbox(JsonFile& json, JsonValue value, std::array<double, 4>& bbox) {
  size_t count = 0;
  bool ok = true;
  bool is_array = json.elements(value, [&](JsonValue v) {
    double number = 0;
    ok = json.read(v, number) && ok;
    if (count < 4) bbox[count] = number;
    ++count;
  });
  return is_array && ok && count == 4;
}

bool read_annotation(JsonFile& json, JsonValue value, Annotation& a, Record& record) {
  bool has_area = false;
  bool is_object = json.fields(value, [&](std::string_view key, JsonValue v) {
    if (key == "id") {
      bool ok = json.read(v, a.id);
      record.saw_id(ok, a.id);
    } else if (key == "image_id") {
      record.saw("image_id", json.read(v, a.image_id), "an integer");
    } else if (key == "category_id") {
      record.saw("category_id", json.read(v, a.category_id), "an integer");
    } else if (key == "bbox") {
      record.saw("bbox", read_bbox(json, v, a.bbox), "four finite numbers [x, y, width, height]");
    } else if (key == "area") {
      has_area = json.read(v, a.area);
      record.saw("area", has_area, "a finite number");
    } else if (key == "iscrowd") {
      int64_t number = 0;
      bool ok = json.read(v, number) ? number == 0 || number == 1 : json.read(v, a.iscrowd);
      a.iscrowd = a.iscrowd || number == 1;
      record.saw("iscrowd", ok, "0 or 1");
    }
  });
  if (is_object) {
    for (const char* name : {"id", "image_id", "category_id", "bbox"}) record.require(name);
  }
  if (!has_area) a.area = std::max(a.bbox[2], 0.0) * std::max(a.bbox[3], 0.0);
  return is_object;
}

bool read_category(JsonFile& json, JsonValue value, Category& category, Record& record) {
  bool is_object = json.fields(value, [&](std::string_view key, JsonValue v) {
    if (key == "id") {
      bool ok = json.read(v, category.id);
      record.saw_id(ok, category.id);
    } else if (key == "name") {
      record.saw("name", json.read(v, category.name), "a string");
    }
  });
  if (is_object) {
    for (const char* name : {"id", "name"}) record.require(name);
  }
  return is_object;
}

template <class T, class Read>
void read_list(JsonFile& json, JsonValue value, const char* list, const char* kind, std::vector<T>& out,
               bool& found, const ProblemReport& report, Read read) {
  if (found) fail_input("{}: \"{}\" appears twice", json.path(), list);
  found = true;
  size_t index = 0;
  bool is_array = json.elements(value, [&](JsonValue v) {
    T item;
    Record record(kind, index++);
    if (!read(json, v, item, record)) record.fault("must be an object");
    if (record.finish(report)) out.push_back(std::move(item));
  });
  if (!is_array) fail_input("{}: \"{}\" must be a list", json.path(), list);
}

}  // namespace

GroundTruth read_coco(const std::string& path, const ProblemReport& report) {
  JsonFile json(path);
  GroundTruth truth;
  bool images = false, annotations = false, categories = false;
  json.root_fields([&](std::string_view key, JsonValue value) {
    if (key == "images") {
      read_list(json, value, "images", "image", truth.images, images, report, read_image);
    } else if (key == "annotations") {
      read_list(json, value, "annotations", "annotation", truth.annotations, annotations, report,
                read_annotation);
    } else if (key == "categories") {
      read_list(json, value, "categories", "category", truth.categories, categories, report, read_category);
    }
  });
  if (!images) fail_input("{}: has no \"images\" list", path);
  if (!annotations) fail_input("{}: has no \"annotations\" list", path);
  if (!categories) fail_input("{}: has no \"categories\" list", path);
  return truth;
}

}  // namespace saccade
