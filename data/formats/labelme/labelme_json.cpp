#include "data/formats/labelme/labelme_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/formats/json_record.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

struct LabelmeShape {
  std::string label, type = "polygon";
  std::vector<double> points;
  bool is_difficult = false;
};

bool read_points(JsonFile& json, JsonValue value, LabelmeShape& shape) {
  bool ok = true;
  const bool is_array = json.elements(value, [&](JsonValue point) {
    size_t count = 0;
    const bool is_point = json.elements(point, [&](JsonValue v) {
      double number = 0;
      ok = json.read(v, number) && ok;
      shape.points.push_back(number);
      ++count;
    });
    ok = ok && is_point && count == 2;
  });
  return is_array && ok;
}

constexpr JsonField<LabelmeShape> kShapeFields[] = {
    {"label", "a string", read_member<&LabelmeShape::label>},
    {"points", "a list of [x, y]", read_points},
    {"shape_type", "a string",
     [](JsonFile& json, JsonValue v, LabelmeShape& shape) {
       json.read(v,
                 shape.type);  // which is missing or null in old files
       return true;
     },
     false},
    {"difficult", "true or false",
     [](JsonFile& json, JsonValue v, LabelmeShape& shape) {
       return json.is_null(v) || json.read(v, shape.is_difficult);
     },
     false}};

class LabelmeReader {
 public:
  explicit LabelmeReader(const std::string& path) : json_(path) {}

  ImageAnnotation read() {
    bool has_shapes = false;
    json_.root_fields([&](std::string_view key, JsonValue value) {
      double side = 0;
      if (key == "imagePath") json_.read(value, file_.file_name);
      if (key == "imageWidth" && json_.read(value, side)) file_.width = image_side(fmt::format("{}", side));
      if (key == "imageHeight" && json_.read(value, side)) file_.height = image_side(fmt::format("{}", side));
      if (key != "shapes") return;
      if (has_shapes) fail_input("{}: \"shapes\" appears twice", json_.path());
      has_shapes = true;
      if (!json_.elements(value, [&](JsonValue v) { add(v); }))
        fail_input("{}: \"shapes\" must be a list", json_.path());
    });
    if (!has_shapes) fail_input("{}: has no \"shapes\", expected a LabelMe file", json_.path());
    return std::move(file_);
  }

 private:
  void add(JsonValue value) {
    LabelmeShape shape;
    const JsonOutcome outcome = read_record(json_, value, kShapeFields, shape);
    ++number_;
    auto problem = [&](const std::string& what) {
      file_.problems.push_back(fmt::format("{}: shape {}: {}", json_.path(), number_, what));
    };
    if (!outcome.problem.empty()) return problem(outcome.problem);
    constexpr std::string_view kLines[] = {"line", "linestrip", "lines", "point", "points"};
    constexpr std::string_view kAreas[] = {"rectangle", "polygon",  "circle",
                                           "mask",      "rotation", "oriented_rectangle"};
    if (std::ranges::find(kLines, shape.type) != std::end(kLines))
      return file_.shapes.leave_out(fmt::format("{}: shape {}: a {}", json_.path(), number_, shape.type));
    if (std::ranges::find(kAreas, shape.type) == std::end(kAreas))
      return problem(fmt::format("unknown shape_type \"{}\"", shape.type.substr(0, 40)));
    if (shape.label.empty()) return problem("the label is empty");
    if (shape.points.size() < 4) return problem("expected at least two points");
    const size_t points = shape.points.size() / 2;
    if (shape.type == "rectangle" && points != 2 && points != 4)
      return problem(
          fmt::format("expected two points of a rectangle, or its four corners, found {}", points));
    if (shape.type == "circle" && points != 2)
      return problem(
          fmt::format("expected the centre of a circle and a point on it, found {} points", points));
    file_.shapes.boxed += shape.type != "rectangle";
    std::vector<double>& p = shape.points;
    if (shape.type == "circle") {  // its centre and a point on it
      const double radius = std::hypot(p[2] - p[0], p[3] - p[1]);
      p = std::vector{round_pixels(p[0] - radius), round_pixels(p[1] - radius), round_pixels(p[0] + radius),
                      round_pixels(p[1] + radius)};
    }
    const bool is_polygon =
        shape.type == "polygon" || shape.type == "rotation" || shape.type == "oriented_rectangle";
    file_.objects.push_back({.name = shape.label,
                             .box = box_around(p),
                             .is_difficult = shape.is_difficult,
                             .segmentation = is_polygon ? polygon_mask(p) : nullptr,
                             .number = number_});
  }

  JsonFile json_;
  ImageAnnotation file_;
  int64_t number_ = 0;
};

}  // namespace

ImageAnnotation read_labelme_json(const std::string& path) { return LabelmeReader(path).read(); }

bool is_labelme_json(const std::string& path) {
  if (!path.ends_with(".json") || !is_file(path)) return false;
  const std::string head = head_of(path, kJsonFile);
  return std::ranges::any_of(std::array{"\"shapes\"", "\"imagePath\"", "\"imageData\""},
                             [&](const char* key) { return head.find(key) != std::string::npos; });
}

bool holds_labelme_json(const std::string& folder) {
  constexpr size_t kFiles = 5, kFolders = 100;
  std::vector<std::string> folders{folder};
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error), end;
  for (; !error && it != end && folders.size() < kFolders; it.increment(error))
    if (const std::string path = it->path().string();
        is_folder(path) && !it->path().filename().string().starts_with("."))
      folders.push_back(path);
  for (const std::string& each : folders) {
    const std::vector<std::string> names = list_files(each, ".json");
    for (size_t i = 0; i < std::min(names.size(), kFiles); ++i)
      if (is_labelme_json(joined(each, names[i]))) return true;
  }
  return false;
}

bool is_labelme_folder(const std::string& folder) {
  return is_folder(folder) && holds_labelme_json(folder) && !has_files_below(folder, ".xml");
}

}  // namespace saccade
