#include "train/report/label_error_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/formats/csv.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "data/labels/label_forms.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string bbox_json(const std::array<double, 4>& b) {
  return fmt::format("[{}, {}, {}, {}]", b[0], b[1], b[2], b[3]);
}

void add_told(std::string& text, const std::string& prefix, const std::optional<ToldLabel>& told) {
  if (!told) return;
  text += fmt::format(", \"{}category\": {}", prefix, json_quote(told->category));
  if (told->bbox) text += fmt::format(", \"{}bbox\": {}", prefix, bbox_json(*told->bbox));
}

std::string entry_json(const LabelErrorEntry& e) {
  std::string text =
      fmt::format("{{\"kind\": \"{}\", \"suspicion\": {}, \"file_name\": {}, \"image_id\": {}",
                  word_of(e.kind), e.suspicion, json_quote(e.image->file_name),
                  e.image->word.empty() ? std::to_string(e.image->id) : json_quote(e.image->word));
  if (e.annotation_id) text += fmt::format(", \"annotation_id\": {}", *e.annotation_id);
  if (!e.place.empty()) text += fmt::format(", \"place\": {}", json_quote(e.place));
  add_told(text, "", e.label);
  add_told(text, "suggested_", e.suggestion);
  if (e.score) text += fmt::format(", \"score\": {}", *e.score);
  if (e.iou) text += fmt::format(", \"iou\": {}", *e.iou);
  return text + "}";
}

constexpr const char* kCsvHeading =
    "kind,suspicion,file_name,image_id,annotation_id,place,category,x,y,width,height,"
    "suggested_category,suggested_x,suggested_y,suggested_width,suggested_height,score,iou\n";

std::string told_csv(const std::optional<ToldLabel>& told) {
  std::string text = "," + (told ? csv_field(told->category) : "");
  for (size_t i = 0; i < 4; ++i)
    text += told && told->bbox ? fmt::format(",{}", (*told->bbox)[i]) : std::string(",");
  return text;
}

std::string entry_csv(const LabelErrorEntry& e) {
  auto number = [](const auto& value) { return value ? fmt::format(",{}", *value) : std::string(","); };
  const std::string id = e.image->word.empty() ? std::to_string(e.image->id) : e.image->word;
  return fmt::format("{},{},{},{}", word_of(e.kind), e.suspicion, csv_field(e.image->file_name),
                     csv_field(id)) +
         number(e.annotation_id) + "," + csv_field(e.place) + told_csv(e.label) + told_csv(e.suggestion) +
         number(e.score) + number(e.iou) + "\n";
}

// Returns the path of the images relative to the folder of the labels.
std::string folder_from(const std::string& folder, const std::string& images) {
  std::error_code error;
  const fs::path relative = fs::relative(images, folder, error);
  return error || relative.empty() ? images : relative.string();
}

}  // namespace

std::unique_ptr<MadeFolder> make_label_error_folder(const LabelErrorOptions& options) {
  if (options.folder.empty()) return nullptr;
  std::error_code error;
  if (fs::exists(options.folder, error) &&
      (!fs::is_directory(options.folder, error) || !fs::is_empty(options.folder, error)))
    fail_input("--label-errors: {}: already exists, expected a new folder", options.folder);
  auto folder = std::make_unique<MadeFolder>(options.folder);
  const Workspace begun(options.folder);
  return folder;
}

std::string summary_of(std::span<const LabelErrorEntry> entries) {
  std::string text;
  for (const LabelErrorKind kind : kLabelErrorKinds) {
    const auto count = std::ranges::count(entries, kind, &LabelErrorEntry::kind);
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", count, word_of(kind));
  }
  return count_of(std::ssize(entries), "label error", "label errors") + text;
}

void write_label_errors(const LabelErrorOptions& options, std::span<const LabelErrorEntry> entries,
                        const GroundTruth* labels, const std::string& images) {
  if (options.folder.empty()) return;
  std::string json = "[", csv = kCsvHeading;
  for (const LabelErrorEntry& e : entries) {
    json += (json.size() > 1 ? ",\n" : "\n") + entry_json(e);
    csv += entry_csv(e);
  }
  Workspace workspace(options.folder);
  const std::string folder = options.folder + "/" + options.form;
  std::vector<std::string> notes;
  const bool has_labels = labels != nullptr && !labels->images.empty();
  if (has_labels) {
    const LabelList list{.truth = *labels,
                         .images = images.empty() ? "" : folder_from(folder, images),
                         .description = kWrittenFrom + options.folder + "/label_errors.json"};
    LabelFiles files = label_forms().find(options.form).write({&list, 1});
    for (const LabelFiles::File& file : files.files)
      write_file(workspace.file(options.form + "/" + file.name), std::string_view(file.text));
    notes = std::move(files.notes);
  }
  write_file(workspace.file("label_errors.csv"), std::string_view(csv));
  write_file(workspace.file("label_errors.json"), std::string_view(json + "\n]\n"));
  if (has_labels) workspace.publish(options.form);
  workspace.publish("label_errors.csv");
  workspace.publish("label_errors.json");
  for (const std::string& note : notes) print_line("note: {}: {}", folder, note);
  print_line("{}: {}{}", options.folder, summary_of(entries),
             has_labels ? fmt::format("; {}, labelled as the model suggests, in {}/",
                                      count_of(std::ssize(labels->images), "image", "images"), options.form)
                        : "");
}

}  // namespace saccade
