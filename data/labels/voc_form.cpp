// Pascal VOC: one XML file per image, in SPLIT/Annotations; the pictures in SPLIT/JPEGImages. Crowds are
// `difficult`, as when reading VOC.
#include <fmt/format.h>

#include "core/files/text.h"
#include "data/formats/listing.h"
#include "data/labels/label_forms.h"
#include "data/pages/html.h"

namespace saccade {
namespace {

std::string voc_xml(const GroundTruth& truth, const ImageInfo& image,
                    const std::vector<const Annotation*>& annotations) {
  std::string text = fmt::format(
      "<annotation>\n  <filename>{}</filename>\n  <size><width>{}</width><height>{}</height><depth>3</depth></size>\n",
      html_escaped(image.file_name), image.width, image.height);
  for (const Annotation* a : annotations) {
    text += fmt::format("  <object>\n    <name>{}</name>\n    <difficult>{}</difficult>\n",
                        html_escaped(category_name(truth, a->category_id)), a->iscrowd ? 1 : 0);
    if (a->score) text += fmt::format("    <score>{}</score>\n", *a->score);
    text += fmt::format(
        "    <bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>\n  </object>\n",
        a->bbox[0], a->bbox[1], a->bbox[0] + a->bbox[2], a->bbox[1] + a->bbox[3]);
  }
  return text + "</annotation>\n";
}

LabelFiles write_voc(std::span<const LabelList> lists) {
  LabelFiles out;
  std::string classes;
  for (const Category& category : lists[0].truth.categories) {
    if (category.name.empty() || category.name.find_first_of("\r\n") != std::string::npos ||
        trimmed(category.name) != category.name)
      fail_input("the class \"{}\" cannot be a line of classes.txt, by which VOC's classes are numbered",
                 printable(category.name));
    classes += category.name + "\n";
  }
  for (const LabelList& list : lists) {
    check_label_names(list.truth, ".xml", "voc");
    const std::string folder = list.split.empty() ? "" : list.split + "/";
    out.files.push_back({folder + "classes.txt", classes});
    const auto annotations = annotations_by_image(list.truth);
    int64_t masks = 0;
    for (const Annotation& a : list.truth.annotations) masks += a.segmentation != nullptr;
    for (size_t i = 0; i < annotations.size(); ++i)
      out.files.push_back({folder + "Annotations/" + label_name(list.truth.images[i], ".xml"),
                           voc_xml(list.truth, list.truth.images[i], annotations[i])});
    note_left_out(out, list,
                  {{masks, "mask is", "masks are", "left out: VOC's XML has none"},
                   {own_areas(list), "area of an object is", "areas of objects are",
                    "left out: VOC has none, so those of the boxes count"}});
    if (!list.split.empty())
      out.pictures.push_back({folder + "JPEGImages", static_cast<size_t>(&list - lists.data())});
  }
  return out;
}

[[maybe_unused]] const bool voc_form_registered = label_forms().add({.name = "voc",
                                                                     .summary = "one XML file per image",
                                                                     .has_scores = true,
                                                                     .is_read = true,
                                                                     .of_each_image = true,
                                                                     .write = write_voc});

}  // namespace
}  // namespace saccade
