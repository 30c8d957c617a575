// Reading COCO instances files.
#include <algorithm>
#include <cmath>
#include <limits>

#include "data/formats/coco/coco.h"
#include "data/formats/json_record.h"

namespace saccade {
namespace {

constexpr size_t kMaxCategories = 65536;  // as many as labels may be

template <auto kSide>
bool read_side(JsonFile& json, JsonValue value, ImageInfo& image) {
  return json.read(value, image.*kSide) && image.*kSide > 0 && image.*kSide <= 1 << 20;
}

bool read_iscrowd(JsonFile& json, JsonValue value, Annotation& a) {
  int64_t number = 0;
  if (!json.read(value, number)) return json.read(value, a.iscrowd);
  a.iscrowd = number == 1;
  return number == 0 || number == 1;
}

constexpr JsonField<ImageInfo> kImageFields[] = {
    {"id", "an integer", read_member<&ImageInfo::id>},
    {"file_name", "a file's name",
     [](JsonFile& json, JsonValue v, ImageInfo& image) {
       return json.read(v, image.file_name) && !image.file_name.empty();
     }},
    {"width", "a positive count of pixels", read_side<&ImageInfo::width>},
    {"height", "a positive count of pixels", read_side<&ImageInfo::height>}};
constexpr JsonField<Annotation> kAnnotationFields[] = {
    {"id", "an integer", read_member<&Annotation::id>},
    {"image_id", "an integer", read_member<&Annotation::image_id>},
    {"category_id", "an integer", read_member<&Annotation::category_id>},
    {"bbox", kBoxForm, read_bbox},
    {"area", "a finite number", read_member<&Annotation::area>, false},
    {"iscrowd", "0 or 1", read_iscrowd, false}};
constexpr JsonField<Category> kCategoryFields[] = {{"id", "an integer", read_member<&Category::id>},
                                                   {"name", "a string", read_member<&Category::name>}};

// The root's lists, each exactly once.
class Lists {
 public:
  Lists(JsonFile& json, const ProblemReport& report) : json_(json), report_(report) {}

  // Reads the list `name` of things called `kind`; each begins as `blank`.
  template <class T, size_t N>
  void read(JsonValue value, const std::string& name, const char* kind, const JsonField<T> (&fields)[N],
            const T& blank, std::vector<T>& out) {
    if (has(name)) fail_input("{}: \"{}\" appears twice", json_.path(), name);
    found_.push_back(name);
    int64_t number = 0;
    bool is_array = json_.elements(value, [&](JsonValue v) {
      T item = blank;
      JsonOutcome outcome = read_record(json_, v, fields, item);
      ++number;
      if (outcome.problem.empty())
        out.push_back(std::move(item));
      else if (outcome.has_first)
        report_(fmt::format("{} {}: {}", kind, item.id, outcome.problem));
      else
        report_(fmt::format("{} number {} of the list: {}", kind, number, outcome.problem));
    });
    if (!is_array) fail_input("{}: \"{}\" must be a list", json_.path(), name);
  }
  bool has(const std::string& name) const { return std::count(found_.begin(), found_.end(), name) > 0; }

 private:
  JsonFile& json_;
  const ProblemReport& report_;
  std::vector<std::string> found_;
};

}  // namespace

GroundTruth read_coco(const std::string& path, const ProblemReport& report) {
  JsonFile json(path, "segmentation");
  GroundTruth truth;
  Lists lists(json, report);
  const Annotation no_area{.area = std::numeric_limits<double>::quiet_NaN()};
  json.root_fields([&](std::string_view key, JsonValue value) {
    if (key == "images")
      lists.read(value, "images", "image", kImageFields, {}, truth.images);
    else if (key == "annotations")
      lists.read(value, "annotations", "annotation", kAnnotationFields, no_area, truth.annotations);
    else if (key == "categories")
      lists.read(value, "categories", "category", kCategoryFields, {}, truth.categories);
  });
  for (const char* name : {"images", "annotations", "categories"})
    if (!lists.has(name)) fail_input("{}: has no \"{}\" list", path, name);
  if (truth.categories.size() > kMaxCategories)
    fail_input("{}: {} categories, expected at most {}", path, truth.categories.size(), kMaxCategories);
  for (Annotation& a : truth.annotations)
    if (std::isnan(a.area)) a.area = std::max(a.bbox[2], 0.0) * std::max(a.bbox[3], 0.0);
  return truth;
}

}  // namespace saccade
