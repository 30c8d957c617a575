// The classes of other projects' detectors.
#include "core/files/text.h"
#include "train/tasks/detection/detection.h"

#include <fmt/format.h>

#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "train/config/options.h"

namespace saccade {

void check_background(const Detector& model, const Dataset& set) {
  const std::optional<int64_t> background = model.background_label();
  if (!background) return;
  for (const Annotation& a : set.ground_truth().annotations)
    if (!a.iscrowd && set.class_of(a.category_id) == *background)
      fail_input(
          "{}: its category \"{}\" has the label {}, which is the background in this model, as in torchvision; "
          "expected category ids of at least 1 and data.labels: category_id",
          set.ground_truth().where(a, set.name(), true),
          set.class_names().at(static_cast<size_t>(*background)), *background);
}

Classes classes_of_annotations(Config& config, const std::string& annotations) {
  const int64_t classes = config.model().num_classes();
  config::Data& data = *config.mutable_data();
  if (!data.has_labels()) {
    bool same = open_dataset({annotations, ""})->num_classes() == classes;
    data.set_labels(same ? config::contiguous : config::category_id);
  }
  auto dataset = open_dataset({annotations, ""}, label_scheme(config));
  const std::vector<Category>& categories = dataset->ground_truth().categories;
  if (dataset->num_classes() > classes)
    fail_input("{}: its {} with ids up to {} do not fit {} ({} labels)", annotations,
               count_of(std::ssize(categories), "category", "categories"), categories.back().id,
               count_of(classes, "output", "outputs"),
               data.labels() == config::category_id ? "category_id" : "contiguous");
  check_background(model_as<const Detector>(std::as_const(*sketch_model(build_args(config), classes))),
                   *dataset);
  return {dataset->class_names(), dataset->category_ids()};
}

namespace {

// COCO's 80 classes in order, as in models that number them from 0.
Classes coco_in_order() {
  Classes out;
  for (size_t id = 0; id < coco_class_names().size(); ++id) {
    if (coco_class_names()[id] == kNoCategory) continue;
    out.ids.push_back(static_cast<int64_t>(id));
    out.names.push_back(coco_class_names()[id]);
  }
  return out;
}

}  // namespace

Classes classes_of_detector(Config& config, const std::vector<std::string>& labels,
                            std::vector<std::string>& notes) {
  const int64_t classes = config.model().num_classes();
  const bool has_names = std::ssize(labels) == classes;
  // A file with as many classes but other names is of another data set.
  const auto may_be_coco = [&](size_t first) { return !has_names || labels[first] == "person"; };
  config::Data& data = *config.mutable_data();
  bool coco = classes == std::ssize(coco_class_names()) && may_be_coco(1);
  if (coco && !data.has_labels()) data.set_labels(config::category_id);
  coco = coco && data.labels() == config::category_id;
  Classes in_order = coco_in_order();
  if (classes == std::ssize(in_order.names) && may_be_coco(0) &&
      (!data.has_labels() || data.labels() == config::contiguous)) {
    data.set_labels(config::contiguous);
    notes.push_back(fmt::format(
        "{} outputs: assumed to be COCO's classes; --annotations takes those of another data set", classes));
    return in_order;
  }
  Classes out;
  for (int64_t k = 0; k < classes; ++k) {
    const auto i = static_cast<size_t>(k);
    out.ids.push_back(k);
    out.names.push_back(coco ? coco_class_names()[i] : has_names ? labels[i] : fmt::format("class {}", k));
  }
  notes.push_back(fmt::format(
      "{} outputs: {}", classes,
      coco ? "the labels are COCO's category ids"
      : has_names
          ? "the classes have the names in config.json and ids from 0; --annotations takes both from a data set"
          : "the classes have no names; --annotations takes them from a data set"));
  return out;
}

}  // namespace saccade
