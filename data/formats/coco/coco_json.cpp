// Reads COCO instances files, as specified and as programs write them: with words or numbers in quotes for
// ids, without sizes of images, and with segmentations only.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/files/text.h"
#include "data/formats/coco/coco.h"
#include "data/formats/coco/segmentation_json.h"
#include "data/formats/coco/word_ids.h"
#include "data/formats/json_record.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

constexpr size_t kMaxCategories = 65536;  // the maximum number of labels

struct FileImage : ImageInfo {
  WordIds* ids = nullptr;
  std::string url;
};
struct FileAnnotation : Annotation {
  WordIds *image_ids = nullptr, *category_ids = nullptr;
  bool reads_masks = false, has_id = false, has_box = false, has_segmentation = false;
  std::string mask_fault;
};
struct FileCategory : Category {
  WordIds* ids = nullptr;
};

bool read_id(JsonFile& json, JsonValue value, WordIds& words, int64_t& id) {
  if (read_integer(json, value, id)) return !WordIds::is_word(id);
  std::string text;
  if (!json.read(value, text)) return false;
  id = words.id_of(text);
  return true;
}
bool read_number(JsonFile& json, JsonValue value, double& number) {
  if (json.read(value, number)) return true;
  std::string text;
  const std::optional<double> written = json.read(value, text) ? finite_number(text) : std::nullopt;
  if (written) number = *written;
  return written.has_value();
}

template <auto kSide>
bool read_side(JsonFile& json, JsonValue value, FileImage& image) {
  double side = 0;
  if (!read_number(json, value, side) || side < 1 || side > 1 << 20 || side != std::floor(side)) return false;
  image.*kSide = static_cast<int64_t>(side);
  return true;
}
bool read_iscrowd(JsonFile& json, JsonValue value, FileAnnotation& a) {
  if (json.read(value, a.iscrowd)) return true;
  double number = 0;
  if (!read_number(json, value, number)) return false;
  a.iscrowd = number == 1;
  return number == 0 || number == 1;
}
bool read_box(JsonFile& json, JsonValue value, FileAnnotation& a) {
  size_t count = 0;
  bool ok = true;
  if (json.is_null(value)) return true;
  const bool is_array = json.elements(value, [&](JsonValue v) {
    double number = 0;
    ok = read_number(json, v, number) && ok;
    if (count < 4) a.bbox[count] = number;
    ++count;
  });
  a.has_box = is_array && ok && count == 4;
  return a.has_box || (is_array && count == 0);
}
bool read_mask(JsonFile& json, JsonValue value, FileAnnotation& a) {
  a.has_segmentation = true;
  if (a.reads_masks) a.segmentation = read_segmentation(json, value, a.mask_fault);
  return true;
}

// Returns the box around the polygons' points or the runs' pixels; it has no size if there are none.
std::array<double, 4> box_of(const Segmentation& segmentation) {
  Box box = segmentation.polygons.empty() ? segmentation.runs.box() : box_around({});
  for (const std::vector<double>& polygon : segmentation.polygons) box = around(box, box_around(polygon));
  return {box.x1, box.y1, box.x2 - box.x1, box.y2 - box.y1};
}

constexpr JsonField<FileImage> kImageFields[] = {
    {"id", "an integer or a string",
     [](JsonFile& json, JsonValue v, FileImage& image) { return read_id(json, v, *image.ids, image.id); }},
    {"file_name", "a file name",
     [](JsonFile& json, JsonValue v, FileImage& image) {
       return json.read(v, image.file_name) && !image.file_name.empty();
     },
     false},
    {"width", "an integer from 1 to 1048576", read_side<&ImageInfo::width>, false},
    {"height", "an integer from 1 to 1048576", read_side<&ImageInfo::height>, false},
    {"coco_url", "a string",
     [](JsonFile& json, JsonValue v, FileImage& image) {
       json.read(v, image.url);
       return true;
     },
     false}};
constexpr JsonField<FileAnnotation> kAnnotationFields[] = {
    {"id", "an integer or a string",
     [](JsonFile& json, JsonValue v, FileAnnotation& a) {
       if (read_integer(json, v, a.id)) return a.has_id = true;
       std::string unused;
       return json.read(v, unused);
     },
     false},
    {"image_id", "an integer or a string",
     [](JsonFile& json, JsonValue v, FileAnnotation& a) {
       return read_id(json, v, *a.image_ids, a.image_id);
     }},
    {"category_id", "an integer or a string",
     [](JsonFile& json, JsonValue v, FileAnnotation& a) {
       return read_id(json, v, *a.category_ids, a.category_id);
     }},
    {"bbox", kBoxForm, read_box, false},
    {"area", "a finite number",
     [](JsonFile& json, JsonValue v, FileAnnotation& a) { return read_number(json, v, a.area); }, false},
    {"iscrowd", "0 or 1", read_iscrowd, false},
    {"segmentation", "", read_mask, false}};
constexpr JsonField<FileCategory> kCategoryFields[] = {
    {"id", "an integer or a string",
     [](JsonFile& json, JsonValue v, FileCategory& c) { return read_id(json, v, *c.ids, c.id); }},
    {"name", "a string", read_member<&Category::name>}};

// Numbers the words among the ids of the items: with the numbers that `known` gives,
// else with the next free ones in order.
template <class T, class Known>
std::unordered_map<int64_t, int64_t> number_words(const std::vector<T>& items, const std::string& path,
                                                  Known known) {
  std::unordered_map<int64_t, int64_t> numbers;
  int64_t last = 0;
  for (const T& item : items) {
    if (!WordIds::is_word(item.id)) last = std::max(last, item.id);
    last = std::max(last, known(item).value_or(0));
  }
  if (last > std::numeric_limits<int64_t>::max() - std::ssize(items))
    fail_input("{}: the id {} leaves no numbers to replace the ids that are strings", path, last);
  for (const T& item : items)
    if (WordIds::is_word(item.id) && !numbers.contains(item.id)) {
      const std::optional<int64_t> number = known(item);
      numbers.emplace(item.id, number ? *number : ++last);
    }
  return numbers;
}

// One pass over the file. It collects errors in records, since the file may have to be read again.
class CocoFile {
 public:
  CocoFile(const DataPaths& paths, bool reads_masks) : paths_(paths), json_(paths.annotations) {
    const FileImage image{{}, &image_ids_, {}};
    FileAnnotation annotation;
    annotation.reads_masks = reads_masks;
    annotation.area = std::numeric_limits<double>::quiet_NaN();
    annotation.image_ids = &image_ids_;
    annotation.category_ids = &category_ids_;
    const FileCategory category{{}, &category_ids_};
    json_.root_fields([&](std::string_view key, JsonValue value) {
      if (key == "images")
        list(value, "images", "image", kImageFields, image, [&](FileImage& i) { return add(i); });
      else if (key == "annotations")
        list(value, "annotations", "annotation", kAnnotationFields, annotation,
             [&](FileAnnotation& a) { return add(a); });
      else if (key == "categories")
        list(value, "categories", "category", kCategoryFields, category, [&](FileCategory& c) {
          truth_.categories.push_back(std::move(c));
          return "";
        });
    });
    for (const char* name : {"images", "annotations", "categories"}) {
      if (has(name)) continue;
      if (!paths.may_lack_annotations || std::string_view(name) == "images")
        fail_input("{}: has no \"{}\" list", paths.annotations, name);
      if (std::string_view(name) == "annotations") truth_.is_annotated = false;
      if (std::string_view(name) == "categories") truth_.categories = paths.categories;
    }
    if (truth_.categories.size() > kMaxCategories)
      fail_input("{}: {} categories, expected at most {}", paths.annotations, truth_.categories.size(),
                 kMaxCategories);
  }
  // Whether boxes are missing while there is a segmentation, which was skipped.
  bool lacks_masks() const { return lacks_masks_; }

  GroundTruth take(const ProblemReport& report) {
    for (const std::string& problem : problems_) report(problem);
    number_annotations();
    if (!category_ids_.empty()) number_categories(report);
    if (!image_ids_.empty()) number_images(report);
    const size_t own = truth_.categories.size();
    if (own > 0 && take_known_categories(truth_, paths_.categories))
      note("names {} of the {} categories; the others have no objects here", own, truth_.categories.size());
    if (boxes_around_masks_ > 0)
      note("{} no bbox; the box around the polygons or runs is used",
           count_of(boxes_around_masks_, "annotation has", "annotations have"));
    if (boxes_of_zeros_ > 0)
      note("{} a bbox of zeros; the box around the polygons or runs is used",
           count_of(boxes_of_zeros_, "annotation has", "annotations have"));
    return std::move(truth_);
  }

 private:
  bool has(const std::string& name) const { return std::count(found_.begin(), found_.end(), name) > 0; }
  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    truth_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  // Reads the list `name` of things called `kind`, each exactly once; each starts as `blank`. `add` returns
  // an error text about one.
  template <class T, size_t N, class Add>
  void list(JsonValue value, const std::string& name, const char* kind, const JsonField<T> (&fields)[N],
            const T& blank, Add add) {
    if (has(name)) fail_input("{}: \"{}\" appears twice", json_.path(), name);
    found_.push_back(name);
    int64_t number = 0;
    const bool is_array = json_.elements(value, [&](JsonValue v) {
      T item = blank;
      const JsonOutcome outcome = read_record(json_, v, fields, item);
      ++number;
      const std::string problem = outcome.problem.empty() ? add(item) : outcome.problem;
      if (problem.empty()) return;
      if constexpr (std::is_same_v<T, FileImage>) {
        ++truth_.left_out.images;
        if (outcome.has_first) truth_.faulty_images.insert(item.id);
        if (!item.file_name.empty()) truth_.faulty_image_names.push_back(item.file_name);
      }
      if constexpr (std::is_same_v<T, FileCategory>) {
        ++truth_.left_out.categories;
        if (outcome.has_first) truth_.faulty_categories.insert(item.id);
      }
      const bool is_called = outcome.has_first && !WordIds::is_word(item.id);
      problems_.push_back(is_called ? fmt::format("{} {}: {}", kind, item.id, problem)
                                    : fmt::format("{} number {} of the list: {}", kind, number, problem));
    });
    if (!is_array) fail_input("{}: \"{}\" must be a list", json_.path(), name);
  }

  std::string add(FileImage& image) {
    // LVIS: http://images.cocodataset.org/train2017/000000000001.jpg, below the images' folder or in it.
    if (image.file_name.empty())
      if (const std::string path = path_of_url(image.url); !path.empty()) {
        image.file_name = path;
        const std::string name = image.url.substr(image.url.rfind('/') + 1);
        if (!is_file(joined(paths_.images, image.file_name)) && is_file(joined(paths_.images, name)))
          image.file_name = name;
      }
    if (image.file_name.empty()) return "field \"file_name\" is missing";
    if (image.width == 0 || image.height == 0) image.width = image.height = 0;
    truth_.images.push_back(std::move(image));
    return "";
  }

  std::string add(FileAnnotation& a) {
    bool is_of_zeros = false;  // zeros that stand for a missing box
    if (a.has_box && a.has_segmentation && a.bbox == std::array<double, 4>{}) {
      lacks_masks_ = lacks_masks_ || !a.reads_masks;
      if (a.segmentation && a.mask_fault.empty()) {
        const std::array<double, 4> around = box_of(*a.segmentation);
        a.has_box = !(around[2] > 0 && around[3] > 0);
        is_of_zeros = !a.has_box;
      }
    }
    if (!a.has_box) {
      if (!a.has_segmentation) return "field \"bbox\" is missing";
      lacks_masks_ = lacks_masks_ || !a.reads_masks;
      if (!a.mask_fault.empty()) return fmt::format("field \"bbox\" is missing, and {}", a.mask_fault);
      if (a.segmentation) a.bbox = box_of(*a.segmentation);
      constexpr double kFar = 1e8;  // as for masks: no box is made of invalid numbers
      if (std::ranges::any_of(a.bbox, [](double v) { return !(std::abs(v) <= kFar); }))
        return fmt::format("field \"bbox\" is missing, and its polygons reach beyond {} pixels", kFar);
      if (!(a.bbox[2] > 0 && a.bbox[3] > 0))
        return "field \"bbox\" is missing, and there are no polygons or runs to compute it from";
      ++(is_of_zeros ? boxes_of_zeros_ : boxes_around_masks_);
    }
    if (!paths_.wants.masks) a.segmentation.reset();
    if (std::isnan(a.area)) a.area = std::max(a.bbox[2], 0.0) * std::max(a.bbox[3], 0.0);
    if (!a.has_id) without_id_.push_back(truth_.annotations.size());
    truth_.annotations.push_back(a);
    if (!paths_.wants.masks || a.mask_fault.empty()) return "";
    ++truth_.faulty_masks;
    return a.mask_fault;
  }

  // Nothing needs their ids, but messages name them.
  void number_annotations() {
    int64_t last = 0;
    for (const Annotation& a : truth_.annotations) last = std::max(last, a.id);
    if (last > std::numeric_limits<int64_t>::max() - std::ssize(without_id_)) last = 0;
    for (const size_t place : without_id_) truth_.annotations[place].id = ++last;
    if (!without_id_.empty())
      note("{} a string as id, or none; numbers up to {} are used instead",
           count_of(std::ssize(without_id_), "annotation has", "annotations have"), last);
  }

  void number_categories(const ProblemReport& report) {
    const std::map<std::string, int64_t> known = ids_by_name(paths_.categories);
    const auto numbers =
        number_words(truth_.categories, paths_.annotations, [&](const Category& c) -> std::optional<int64_t> {
          const auto it = known.find(c.name);
          return it == known.end() ? std::nullopt : std::optional(it->second);
        });
    for (Category& c : truth_.categories)
      if (WordIds::is_word(c.id)) c.id = numbers.at(c.id);
    apply(&Annotation::category_id, category_ids_, numbers, report);
    if (!numbers.empty())
      note("{}; numbers are used instead",
           count_of(std::ssize(numbers), "category id is a string", "category ids are strings"));
  }
  void number_images(const ProblemReport& report) {
    const auto numbers = number_words(truth_.images, paths_.annotations,
                                      [](const ImageInfo&) { return std::optional<int64_t>(); });
    for (ImageInfo& image : truth_.images)
      if (WordIds::is_word(image.id)) {
        image.word = image_ids_.word(image.id);
        image.id = numbers.at(image.id);
      }
    apply(&Annotation::image_id, image_ids_, numbers, report);
    if (!numbers.empty())
      note("{}; numbers in the order of the list are used instead",
           count_of(std::ssize(numbers), "image id is a string", "image ids are strings"));
  }
  void apply(int64_t Annotation::*id, const WordIds& words,
             const std::unordered_map<int64_t, int64_t>& numbers, const ProblemReport& report) {
    std::erase_if(truth_.annotations, [&](Annotation& a) {
      if (!WordIds::is_word(a.*id)) return false;
      if (const auto it = numbers.find(a.*id); it != numbers.end()) {
        a.*id = it->second;
        return false;
      }
      const bool is_image = id == &Annotation::image_id;
      GroundTruth::LeftOut& left = truth_.left_out;
      if (is_image) ++(is_faulty_image(truth_, a.*id) ? left.boxes_of_images : left.boxes_of_unknown);
      const std::string word = fmt::format("\"{}\"", words.word(a.*id));
      report(fmt::format("annotation {}: {}", a.id,
                         (is_image ? unknown_image : unknown_category)(truth_, a.*id, word)));
      return true;
    });
  }

  const DataPaths& paths_;
  JsonFile json_;
  WordIds image_ids_, category_ids_;
  GroundTruth truth_;
  std::vector<std::string> found_, problems_;
  std::vector<size_t> without_id_;
  int64_t boxes_around_masks_ = 0, boxes_of_zeros_ = 0;
  bool lacks_masks_ = false;
};

}  // namespace

std::string path_of_url(const std::string& url) {
  const size_t host = url.find("://"),
               path = host == std::string::npos ? std::string::npos : url.find('/', host + 3);
  return path == std::string::npos ? "" : url.substr(path + 1);
}

GroundTruth read_coco(const DataPaths& paths, const ProblemReport& report) {
  if (!paths.wants.masks) {
    // Skips the segmentations, which is much faster; their JSON grammar is checked.
    CocoFile file(paths, false);
    if (!file.lacks_masks()) return file.take(report);
  }
  return CocoFile(paths, true).take(report);
}

}  // namespace saccade
