// YOLO as in Ultralytics: data.yaml, and a text file for each picture of images/SPLIT in labels/SPLIT.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/formats/json.h"
#include "data/formats/named_classes.h"
#include "data/labels/label_forms.h"

namespace saccade {
namespace {

using Polygon = std::vector<double>;

bool is_boxed_by(const Polygon& points, const Annotation& a) {
  const Box box = box_around(points);
  const double around[] = {box.x1, box.y1, box.x2 - box.x1, box.y2 - box.y1};
  for (size_t i = 0; i < 4; ++i)
    if (round_pixels(around[i]) != round_pixels(a.bbox[i])) return false;
  return true;
}

// Joins polygons into one: a line without area leads between the nearest points of two polygons and back.
// Empty if they have too many points, as in a mask of noise.
Polygon joined_polygons(const std::vector<Polygon>& polygons) {
  constexpr double kMaxPairs = 3e7;
  double pairs = 0;
  Polygon all = polygons[0];
  for (size_t p = 1; p < polygons.size(); ++p) {
    const Polygon& next = polygons[p];
    pairs += static_cast<double>(all.size() / 2) * static_cast<double>(next.size() / 2);
    if (pairs > kMaxPairs) return {};
    size_t from = 0, to = 0;
    double nearest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < all.size(); i += 2)
      for (size_t k = 0; k < next.size(); k += 2)
        if (const double x = all[i] - next[k], y = all[i + 1] - next[k + 1]; x * x + y * y < nearest)
          nearest = x * x + y * y, from = i, to = k;
    const auto at = [](const Polygon& polygon, size_t i) {
      return polygon.begin() + static_cast<std::ptrdiff_t>(i);
    };
    Polygon inserted(at(next, to), next.end());
    inserted.insert(inserted.end(), next.begin(), at(next, to + 2));
    inserted.insert(inserted.end(), {all[from], all[from + 1]});
    all.insert(at(all, from + 2), inserted.begin(), inserted.end());
  }
  return all;
}

// Returns a polygon that fully describes an object: with its box as the surrounding box, and its pixels.
// Empty if there is none.
Polygon whole_polygon(const Annotation& a, ImageSize size) {
  if (!a.segmentation) return {};
  const std::vector<Polygon>& own = a.segmentation->polygons;
  const bool are_polygons = !own.empty() && std::ranges::all_of(own, [](const Polygon& points) {
    return points.size() >= 6 && points.size() % 2 == 0;
  });
  if (!own.empty() && !are_polygons) return {};
  if (own.size() == 1) return is_boxed_by(own[0], a) ? own[0] : Polygon();
  const Mask mask = a.segmentation->mask(size);
  for (const std::vector<Polygon>& polygons : {own, mask.polygons()}) {
    if (polygons.empty()) continue;
    Polygon whole = joined_polygons(polygons);
    if (!whole.empty() && is_boxed_by(whole, a) && Mask::from_polygons(size, {&whole, 1}) == mask)
      return whole;
  }
  return {};
}

// Polygons of all objects. If one object has none, none are used: its name is reported.
using Polygons = std::unordered_map<const Annotation*, Polygon>;
Polygons whole_polygons(std::span<const LabelList> lists, std::string& first_without) {
  Polygons all;
  for (const LabelList& list : lists) {
    const auto images = list.truth.images_by_id();
    for (const Annotation& a : list.truth.annotations) {
      if (a.iscrowd) continue;
      const ImageInfo& image = *images.at(a.image_id);
      Polygon& whole = all[&a] = whole_polygon(a, {image.height, image.width});
      if (!whole.empty()) continue;
      first_without = list.truth.name_of(a);
      return {};
    }
  }
  return all;
}

bool has_mask(const Annotation& a) { return a.segmentation && !a.iscrowd; }

// Twelve digits represent a millionth of a pixel of any image. Without polygons, the boxes are written.
std::string yolo_lines(const ImageInfo& image, const std::vector<const Annotation*>& annotations,
                       const std::vector<Category>& categories, const Polygons& polygons) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  std::string text;
  for (const Annotation* a : annotations) {
    if (a->iscrowd) continue;
    const auto category = std::ranges::find(categories, a->category_id, &Category::id);
    text += std::to_string(category - categories.begin());
    if (!polygons.empty()) {
      const Polygon& points = polygons.at(a);
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
  std::string first_without;
  const Polygons polygons = whole_polygons(lists, first_without);
  const std::string why = fmt::format(
      "left out: YOLO needs one polygon that fits the box for every object, but {} has none", first_without);
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
    note_left_out(out, list,
                  {{crowds_of(list), "crowd is", "crowds are", "left out: YOLO has none"},
                   {own_areas(list), "area of an object is", "areas of objects are",
                    "left out: YOLO has none, so those of the boxes count"},
                   {polygons.empty() ? std::ranges::count_if(list.truth.annotations, has_mask) : 0, "mask is",
                    "masks are", why.c_str()}});
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
                       .summary = "data.yaml and one text file per image",
                       .is_read = true,
                       .of_each_image = true,
                       .has_crowds = false,
                       .write = write_yolo});

}  // namespace
}  // namespace saccade
