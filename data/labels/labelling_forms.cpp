// Formats that labelling tools import as pre-annotations: CVAT's "CVAT for images 1.1" and Label Studio's
// tasks with predictions.
#include <fmt/format.h>

#include "core/formats/json.h"
#include "data/labels/label_forms.h"
#include "data/pages/html.h"

namespace saccade {
namespace {

// CVAT's runs go along the rows of the box around the mask and start with a run of unset pixels.
std::string cvat_mask(const Mask& mask) {
  const Box& box = mask.box();
  const auto left = static_cast<int64_t>(box.x1), top = static_cast<int64_t>(box.y1);
  const ImageSize size{static_cast<int64_t>(box.y2) - top, static_cast<int64_t>(box.x2) - left};
  std::string runs;
  uint8_t current = 0;
  int64_t count = 0;
  for (const uint8_t pixel : mask.crop(top, left, size).bitmap()) {
    if (pixel != current) {
      runs += fmt::format("{}, ", count);
      current = pixel;
      count = 0;
    }
    ++count;
  }
  return fmt::format(R"(rle="{}{}" left="{}" top="{}" width="{}" height="{}")", runs, count, left, top,
                     size.width, size.height);
}

std::string cvat_shape(const GroundTruth& truth, const ImageInfo& image, const Annotation& a) {
  const std::string label = html_escaped(category_name(truth, a.category_id));
  if (a.segmentation && a.segmentation->polygons.size() == 1) {
    std::string points;
    const std::vector<double>& xy = a.segmentation->polygons[0];
    for (size_t i = 0; i + 1 < xy.size(); i += 2)
      points += fmt::format("{}{},{}", i ? ";" : "", xy[i], xy[i + 1]);
    return fmt::format(R"(<polygon label="{}" source="auto" occluded="0" points="{}" z_order="0"/>)", label,
                       points);
  }
  if (a.segmentation)
    if (const Mask mask = a.segmentation->mask({image.height, image.width}); mask.area() > 0)
      return fmt::format(R"(<mask label="{}" source="auto" occluded="0" {} z_order="0"/>)", label,
                         cvat_mask(mask));
  return fmt::format(
      R"(<box label="{}" source="auto" occluded="0" xtl="{}" ytl="{}" xbr="{}" ybr="{}" z_order="0"/>)",
      label, a.bbox[0], a.bbox[1], a.bbox[0] + a.bbox[2], a.bbox[1] + a.bbox[3]);
}

LabelFiles write_cvat(std::span<const LabelList> lists) {
  LabelFiles out;
  for (const LabelList& list : lists) {
    std::string text =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotations>\n  <version>1.1</version>\n  <meta><task><labels>\n";
    for (const Category& category : list.truth.categories)
      text += fmt::format("    <label><name>{}</name><attributes></attributes></label>\n",
                          html_escaped(category.name));
    text += "  </labels></task></meta>\n";
    const auto annotations = annotations_by_image(list.truth);
    for (size_t i = 0; i < annotations.size(); ++i) {
      const ImageInfo& image = list.truth.images[i];
      text += fmt::format("  <image id=\"{}\" name=\"{}\" width=\"{}\" height=\"{}\">\n", i,
                          html_escaped(image.file_name), image.width, image.height);
      for (const Annotation* a : annotations[i]) text += "    " + cvat_shape(list.truth, image, *a) + "\n";
      text += "  </image>\n";
    }
    out.files.push_back(
        {(list.split.empty() ? "annotations" : list.split) + ".xml", text + "</annotations>\n"});
    note_left_out(
        out, list,
        {{own_areas(list, false), "area of an object is", "areas of objects are",
          "left out: CVAT has none, so those of the boxes count"},
         {crowds_of(list), "crowd is", "crowds are", "written like any object: CVAT has no crowds"}});
  }
  return out;
}

std::string studio_result(const GroundTruth& truth, const ImageInfo& image, const Annotation& a) {
  const double x = 100.0 / static_cast<double>(image.width), y = 100.0 / static_cast<double>(image.height);
  return fmt::format(
      "{{\"id\": \"{}\", \"type\": \"rectanglelabels\", \"from_name\": \"label\", \"to_name\": \"image\", \"original_width\": {}, "
      "\"original_height\": {}, \"image_rotation\": 0, \"value\": {{\"x\": {}, \"y\": {}, \"width\": {}, \"height\": {}, \"rotation\": 0, "
      "\"rectanglelabels\": [{}]}}{}}}",
      a.id, image.width, image.height, a.bbox[0] * x, a.bbox[1] * y, a.bbox[2] * x, a.bbox[3] * y,
      json_quote(category_name(truth, a.category_id)),
      a.score ? fmt::format(", \"score\": {}", *a.score) : "");
}

LabelFiles write_studio(std::span<const LabelList> lists) {
  LabelFiles out;
  for (const LabelList& list : lists) {
    std::string text = "[";
    int64_t masks = 0;
    const auto annotations = annotations_by_image(list.truth);
    for (size_t i = 0; i < annotations.size(); ++i) {
      const ImageInfo& image = list.truth.images[i];
      text += fmt::format(
          "{}\n{{\"data\": {{\"image\": {}}}, \"predictions\": [{{\"model_version\": \"saccade\", \"result\": [",
          i ? "," : "", json_quote("/data/local-files/?d=" + image.file_name));
      for (size_t k = 0; k < annotations[i].size(); ++k) {
        text += (k ? ",\n" : "\n") + studio_result(list.truth, image, *annotations[i][k]);
        masks += annotations[i][k]->segmentation != nullptr;
      }
      text += "]}]}";
    }
    out.files.push_back({(list.split.empty() ? "tasks" : list.split) + ".json", text + "\n]\n"});
    note_left_out(
        out, list,
        {{masks, "mask is", "masks are", "left out: only boxes are written"},
         {own_areas(list), "area of an object is", "areas of objects are",
          "left out: Label Studio has none, so those of the boxes count"},
         {crowds_of(list), "crowd is", "crowds are", "written like any object: Label Studio has no crowds"}});
  }
  std::string view =
      "<View>\n  <Image name=\"image\" value=\"$image\"/>\n  <RectangleLabels name=\"label\" toName=\"image\">\n";
  for (const Category& category : lists[0].truth.categories)
    view += fmt::format("    <Label value=\"{}\"/>\n", html_escaped(category.name));
  out.files.push_back({"labeling_config.xml", view + "  </RectangleLabels>\n</View>\n"});
  return out;
}

[[maybe_unused]] const bool cvat_form_registered = label_forms().add(
    {.name = "cvat", .summary = "annotations.xml of \"CVAT for images 1.1\"", .write = write_cvat});
[[maybe_unused]] const bool studio_form_registered =
    label_forms().add({.name = "labelstudio",
                       .summary = "Label Studio's tasks with predictions, and its labelling interface",
                       .has_scores = true,
                       .write = write_studio});

}  // namespace
}  // namespace saccade
