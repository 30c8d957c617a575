#include "core/files/text.h"
#include "train/tasks/detection/report_pictures.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/tensor/error.h"
#include "data/evaluation/label_errors.h"
#include "data/images/image.h"
#include "data/labels/label_forms.h"
#include "data/pages/picture.h"
#include "train/inference/evaluation_data.h"
#include "train/logs/print.h"
#include "train/report/label_error_files.h"

namespace saccade {
namespace {

constexpr int64_t kCutSide = 200;
constexpr size_t kMaxOfKind = 12;
constexpr double kTrustedAp50 = 0.3;

LabelErrorEntry entry_of(const LabelError& error, const Dataset& dataset) {
  const GroundTruth& truth = dataset.ground_truth();
  LabelErrorEntry entry{
      .kind = error.kind, .suspicion = error.suspicion, .image = &truth.images[error.image]};
  if (error.label != nullptr) {
    entry.place = truth.name_of(*error.label);
    if (error.label->place.file == 0) entry.annotation_id = error.label->id;
    entry.label = {category_name(truth, error.label->category_id), error.label->bbox};
  }
  if (error.found != nullptr) {
    entry.suggestion = {category_name(truth, error.found->category_id), error.found->bbox};
    entry.score = error.found->score;
    entry.iou = error.iou;
  }
  return entry;
}

// Removes the errors of images without detections that cannot be read; returns how many these were.
size_t leave_out_unread(std::vector<LabelError>& errors, const Dataset& dataset,
                        const std::vector<Detection>& detections) {
  std::unordered_set<int64_t> seen;
  for (const Detection& d : detections) seen.insert(d.image_id);
  std::map<size_t, bool> can_be_read;
  return std::erase_if(errors, [&](const LabelError& error) {
    const auto index = static_cast<int64_t>(error.image);
    if (seen.contains(dataset.image_id(index))) return false;
    const auto [it, is_new] = can_be_read.emplace(error.image, true);
    if (is_new) it->second = open_picture(dataset, index).has_value();
    return !it->second;
  });
}

// Returns the images with errors as the model would label them: missing objects are added, with their score,
// and wrong classes and boxes are replaced. Labels that the model did not find stay.
GroundTruth corrected(const Dataset& dataset, const std::vector<LabelError>& errors) {
  const GroundTruth& truth = dataset.ground_truth();
  GroundTruth labels{.images = {}, .annotations = {}, .categories = truth.categories};
  std::set<size_t> images;
  std::unordered_map<const Annotation*, const LabelError*> changes;
  std::set<int64_t> ids;
  for (const Annotation& a : truth.annotations) ids.insert(a.id);
  int64_t new_id = 0;
  for (const LabelError& error : errors) {
    images.insert(error.image);
    if (error.label != nullptr && error.found != nullptr) changes.emplace(error.label, &error);
  }
  for (const size_t i : images) {
    labels.images.push_back(truth.images[i]);
    ImageInfo& image = labels.images.back();
    if (image.width <= 0 || image.height <= 0) {
      const ImageSize size = image_size(dataset.image_path(static_cast<int64_t>(i)));
      image.width = size.width;
      image.height = size.height;
    }
    for (const Annotation& a : dataset.annotations_of(static_cast<int64_t>(i))) {
      labels.annotations.push_back(a);
      Annotation& label = labels.annotations.back();
      const auto change = changes.find(&a);
      if (change == changes.end()) continue;
      const LabelError& error = *change->second;
      label.category_id = error.found->category_id;
      label.score = error.found->score;
      if (error.kind != LabelErrorKind::kWrongBox) continue;
      label.bbox = error.found->bbox;
      label.area = label.bbox[2] * label.bbox[3];
      label.segmentation = nullptr;
    }
  }
  for (const LabelError& error : errors) {
    if (error.kind != LabelErrorKind::kMissing) continue;
    while (ids.contains(++new_id)) continue;
    labels.annotations.push_back({.id = new_id,
                                  .image_id = truth.images[error.image].id,
                                  .category_id = error.found->category_id,
                                  .bbox = error.found->bbox,
                                  .area = error.found->bbox[2] * error.found->bbox[3],
                                  .score = error.found->score});
  }
  return labels;
}

// Draws the label and the detection in two colours, whatever their classes.
Html error_picture(const LabelErrorEntry& entry, const Image& image) {
  std::vector<Instance> boxes;
  std::vector<std::string> names;
  Html caption = html("<b>{}</b> ", metric_text(entry.suspicion));
  auto add = [&](const char* word, const ToldLabel& told, double score) {
    boxes.push_back({.label = std::ssize(names), .box = box_of_corner(*told.bbox), .score = score});
    names.push_back(fmt::format("{} {}", word, told.category));
    caption += html("{}{} {}", boxes.size() > 1 ? ", " : "", word, told.category);
  };
  if (entry.label)
    add("label", *entry.label, -1);
  else
    names.push_back("");  // skips the colour of labels
  if (entry.suggestion) add("found", *entry.suggestion, *entry.score);
  const std::vector<Instance> others(boxes.begin() + 1, boxes.end());
  caption += html("<br>{}{}{}", entry.image->file_name, entry.place.empty() ? "" : ", ", entry.place);
  return picture(cut_around(image, boxes[0], others, names, kCutSide), entry.image->file_name, caption);
}

void add_kind(Page& page, LabelErrorKind kind, const std::vector<LabelError>& errors,
              const std::vector<LabelErrorEntry>& entries, const Dataset& dataset) {
  std::vector<Html> shown;
  size_t count = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].kind != kind || ++count > kMaxOfKind) continue;
    if (const std::optional<Image> image = open_picture(dataset, static_cast<int64_t>(errors[i].image)))
      shown.push_back(error_picture(entries[i], *image));
  }
  if (count == 0) return;
  page.add(html("<h3>{} ({}{})</h3>\n", title_of(kind), count_text(static_cast<int64_t>(count)),
                count > kMaxOfKind ? fmt::format(", the first {} are shown", kMaxOfKind) : std::string()));
  page.add(grid("pictures", shown));
}

}  // namespace

void check_label_errors(const Dataset& dataset, const LabelErrorOptions& options) {
  if (!options.folder.empty() && label_forms().find(options.form).of_each_image)
    check_label_names(dataset.ground_truth(), "", options.form);
}

void add_label_errors(Page& page, const Dataset& dataset, const std::vector<Detection>& detections,
                      double ap50, const ReportOptions& options, const std::vector<std::string>& remarks) {
  std::vector<LabelError> errors =
      find_label_errors(dataset.ground_truth(), detections, options.label_errors.least_suspicion);
  const size_t unread = leave_out_unread(errors, dataset, detections);
  std::vector<LabelErrorEntry> entries;
  for (const LabelError& error : errors) entries.push_back(entry_of(error, dataset));
  page.section("Label errors");
  page.add(note(fmt::format(
      "Labels that the model disagrees with, the most suspicious first. A suspicion from 0 to 1 says how sure the model "
      "is of another answer and how little it supports the label; those of at least {} are shown. In some, the model is wrong "
      "and the label is right. In images that it was trained on, it finds fewer errors.",
      metric_text(options.label_errors.least_suspicion))));
  constexpr std::string_view kNote = "note: ";
  for (const std::string& remark : remarks)
    page.add(note(remark.starts_with(kNote) ? remark.substr(kNote.size()) : remark));
  if (ap50 >= 0 && ap50 < kTrustedAp50) {
    const std::string warning =
        fmt::format("AP50 of the detections is {}, so the model cannot be trusted to find label errors",
                    metric_text(ap50));
    page.add(note("The " + warning + "."));
    if (!options.label_errors.folder.empty()) print_line("note: {}: the {}", options.source, warning);
  }
  if (unread > 0)
    page.add(note(fmt::format("{} in images that cannot be read.",
                              count_of(static_cast<int64_t>(unread), "suspected error is left out: it is",
                                       "suspected errors are left out: they are"))));
  page.add(html("<p>{}.</p>\n", summary_of(entries)));
  for (const LabelErrorKind kind : kLabelErrorKinds) add_kind(page, kind, errors, entries, dataset);
  if (options.label_errors.folder.empty()) return;
  const GroundTruth labels = corrected(dataset, errors);
  write_label_errors(options.label_errors, entries, &labels,
                     options.paths.sets.empty() ? options.paths.images : "");
}

}  // namespace saccade
