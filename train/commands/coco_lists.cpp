#include "train/commands/coco_lists.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/formats/coco/coco.h"
#include "data/formats/listing.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

// From the folder of the file on.
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
