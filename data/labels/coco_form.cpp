// COCO json with scores, as labelling tools accept it.
#include "data/formats/coco/coco.h"
#include "data/labels/label_forms.h"

namespace saccade {
namespace {

LabelFiles write_coco_form(std::span<const LabelList> lists) {
  LabelFiles out;
  for (const LabelList& list : lists)
    out.files.push_back({(list.split.empty() ? "annotations" : list.split) + ".json",
                         coco_json(list.truth, list.description, list.images)});
  return out;
}

[[maybe_unused]] const bool coco_form_registered = label_forms().add({.name = "coco",
                                                                      .summary = "one JSON file per split",
                                                                      .has_scores = true,
                                                                      .is_read = true,
                                                                      .write = write_coco_form});

}  // namespace
}  // namespace saccade
