// YOLO as Ultralytics has it: data.yaml, and a text file for each picture of images/SPLIT in labels/SPLIT.
#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"
#include "data/formats/named_classes.h"
#include "data/labels/label_forms.h"

namespace saccade {
namespace {

// The polygon that says all of an object: its box is the one around it.
const std::vector<double>* whole_polygon(const Annotation& a) {
  if (!a.segmentation || a.segmentation->polygons.size() != 1) return nullptr;
  const std::vector<double>& points = a.segmentation->polygons[0];
  if (points.size() < 6 || points.size() % 2 != 0) return nullptr;
  const Box box = box_around(points);
  const double around[] = {box.x1, box.y1, box.x2 - box.x1, box.y2 - box.y1};
  for (size_t i = 0; i < 4; ++i)
    if (round_pixels(around[i]) != round_pixels(a.bbox[i])) return nullptr;
  return &points;
}

bool has_mask(const Annotation& a) { return a.segmentation && !a.iscrowd; }

// Twelve digits tell a millionth of a pixel of any image.
std::string yolo_lines(const ImageInfo& image, const std::vector<const Annotation*>& annotations,
                       const std::vector<Category>& categories, bool polygons) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  std::string text;
  for (const Annotation* a : annotations) {
    if (a->iscrowd) continue;
    const auto category = std::ranges::find(categories, a->category_id, &Category::id);
    text += std::to_string(category - categories.begin());
    if (polygons) {
      const std::vector<double>& points = *whole_polygon(*a);
      for (size_t i = 0; i < points.size(); ++i)
        text += fmt::format(" {:.12g}", points[i] / (i % 2 == 0 ? width : height));
    } else {
      text += fmt::format(" {:.12g} {:.12g} {:.12g} {:.12g}", (a->bbox[0] + a->bbox[2] / 2) / width,
                          (a->bbox[1] + a->bbox[3] / 2) / height, a->bbox[2] / width, a->bbox[3] / height);
    }
    text += '\n';
  }
  return text;
}

LabelFiles write_yolo(std::span<const LabelList> lists) {
  LabelFiles out;
  const std::vector<Category>& categories = lists[0].truth.categories;
  const bool polygons = std::ranges::all_of(lists, [](const LabelList& list) {
    return std::ranges::all_of(list.truth.annotations,
                               [](const Annotation& a) { return a.iscrowd || whole_polygon(a) != nullptr; });
  });
  std::string yaml = "# " + lists[0].description + "\n";
  for (const LabelList& list : lists) {
    check_label_names(list.truth, ".txt", "yolo");
    const std::string folder = list.split.empty() ? "" : "/" + list.split;
    const auto annotations = annotations_by_image(list.truth);
    for (size_t i = 0; i < annotations.size(); ++i) {
      const ImageInfo& image = list.truth.images[i];
      out.files.push_back({"labels" + folder + "/" + label_name(image, ".txt"),
                           yolo_lines(image, annotations[i], categories, polygons)});
    }
    note_left_out(
        out, list,
        {{crowds_of(list), "crowd is", "crowds are", "left out: YOLO has none"},
         {own_areas(list), "area of an object is", "areas of objects are",
          "left out: YOLO has none, those of the boxes count"},
         {polygons ? 0 : std::ranges::count_if(list.truth.annotations, has_mask), "mask is", "masks are",
          "left out: YOLO has polygons only where every object has one, and its box is around it"}});
    if (list.split.empty()) continue;
    out.pictures.push_back({"images" + folder, static_cast<size_t>(&list - lists.data())});
    yaml += fmt::format("{0}: images/{0}\n", list.split);
  }
  yaml += "names:\n";
  for (size_t k = 0; k < categories.size(); ++k)
    yaml += fmt::format("  {}: {}\n", k, json_quote(categories[k].name));
  out.files.push_back({"data.yaml", yaml});
  return out;
}

[[maybe_unused]] const bool yolo_form_registered =
    label_forms().add({.name = "yolo",
                       .summary = "data.yaml and a text file an image",
                       .is_read = true,
                       .of_each_image = true,
                       .has_crowds = false,
                       .write = write_yolo});

}  // namespace
}  // namespace saccade
