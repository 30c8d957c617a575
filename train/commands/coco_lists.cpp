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

void CocoLists::add(const DataSource& source, const GroundTruth& truth) {
  lines_.push_back(fmt::format("{}: {} images in {}, {} boxes, {} categories", source.output,
                               truth.images.size(), source.paths.images, truth.annotations.size(),
                               truth.categories.size()));
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
