#include "train/commands/data/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {

namespace {

// Refuses an output folder that is one of these: the outputs would be read as its lists or images.
void check_not_of_data(const std::string& folder, const std::vector<std::string>& data) {
  std::error_code error;
  for (const std::string& place : data)
    if (std::filesystem::equivalent(folder, place, error))
      fail_input("{}: is the folder of the data set, expected another folder for the output", folder);
}

}  // namespace

std::unique_ptr<MadeFolder> prepare_outputs(const std::vector<DataSource>& sources, const std::string& folder,
                                            const std::vector<std::string>& data) {
  std::unique_ptr<MadeFolder> made;
  if (!folder.empty()) {
    check_not_of_data(folder, data);
    if (!data.empty())
      for (const DataSource& source : sources)
        for (const DataPaths& set : sets_of(source.paths)) check_not_of_data(folder, {set.images});
    made = std::make_unique<MadeFolder>(folder);
  }
  for (const DataSource& source : sources) {
    for (const DataPaths& set : sets_of(source.paths))
      check_outputs({{"the output", source.output}}, {{"the annotations", set.annotations}});
    // A list that someone else wrote is not replaced.
    if (is_old_file(source.output) && beginning_of(source.output, kWrittenList.size()) != kWrittenList)
      fail_input("{}: already exists and was not written by saccade, expected another {}", source.output,
                 folder.empty() ? "name" : "folder");
  }
  return made;
}

std::string why_not_to_train(Written written, bool is_alone) {
  if (written.images < 2 && is_alone)
    return "1 image is not enough to train on: another is needed for validation";
  if (written.boxes == 0) return "no image has an annotation, so there is nothing to learn";
  return "";
}

void tell_how_to_train(const std::string& place, const std::vector<DataSource>& sources, Written written,
                       bool allow_outside) {
  const DataSource& training = sources[0];
  if (!training.name.empty() && training.name != "train") return;
  if (const std::string why = why_not_to_train(written, sources.size() == 1); !why.empty())
    return print_line("{}: {}", training.output, why);
  bool is_found = false;
  try {
    std::error_code error;
    const DataSplits found = look_for_splits(place);
    is_found = found.format == "coco" && found.train && found.train->annotations == training.output &&
               std::filesystem::equivalent(found.train->images, training.paths.images, error);
    for (const auto& [name, split] : named_splits(found))
      if (is_found && std::ranges::find(sources, split.annotations, &DataSource::output) == sources.end())
        print_line("note: {}: existed before and is kept; --data {} uses it for the {} images",
                   split.annotations, shell_word(place), name);
  } catch (const InputError&) {  // the folder also holds another data set
  }
  const char* outside = allow_outside ? " --set data.allow_outside=true" : "";
  if (is_found)
    print_line("to train on it: saccade train --data {} --model rt_detr_r18{}", shell_word(place), outside);
  else
    print_line(
        "to train on it with the --config of a recipe: --set data.train.annotations={} --set data.train.images={}{}",
        shell_word(training.output), shell_word(training.paths.images), outside);
}

namespace {

// Returns the path relative to the folder of the file.
std::string relative_folder(const std::string& folder, const std::string& file) {
  std::error_code error;
  const std::filesystem::path relative = std::filesystem::relative(folder, parent_of(file), error);
  return error || relative.empty() ? folder : relative.string();
}

}  // namespace

std::string counts_of_list(const GroundTruth& truth, const std::string& images, int64_t boxes_left_out) {
  return fmt::format("{} in {}, {}{}, {}", count_of(std::ssize(truth.images), "image", "images"), images,
                     count_of(std::ssize(truth.annotations) - boxes_left_out, "box", "boxes"),
                     boxes_left_out > 0
                         ? fmt::format(" ({} left out)", count_of(boxes_left_out, "more is", "more are"))
                         : "",
                     count_of(std::ssize(truth.categories), "category", "categories"));
}

void CocoLists::add(const DataSource& source, const GroundTruth& truth) {
  lines_.push_back(fmt::format("{}: {}", source.output, counts_of_list(truth, source.paths.images)));
  if (is_old_file(source.output))
    lines_.push_back(fmt::format("{}: replaces an existing file", source.output));
  const std::string text = coco_json(truth, kWrittenFrom + source.paths.annotations,
                                     relative_folder(source.paths.images, source.output));
  files_.push_back(std::make_unique<OutputFile>(source.output));
  files_.back()->write(text.data(), text.size());
}

void CocoLists::write() {
  for (const auto& file : files_) file->commit();
  for (const std::string& line : lines_) print_line(line);
}

}  // namespace saccade
