#include "train/commands/data/label_maps.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/images/draw.h"
#include "data/images/stored_pixels.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"

namespace saccade {

void take_findings(ReportedSplit& split, DatasetReport report) {
  if (split.truth.images.empty() || split.truth.categories.empty()) {
    const std::vector<std::string> lines = report.problems.lines();
    fail_input("{}",
               lines.empty() ? split.paths.annotations + ": has no images or no classes" : lines.front());
  }
  split.problems = std::move(report.problems);
  split.remarks = std::move(report.remarks);
}

std::vector<ReportedSplit> label_map_splits(const DataSplits& found) {
  std::vector<ReportedSplit> splits;
  for (const auto& [name, paths] : named_splits(found)) {
    ReportedSplit split{.name = name, .paths = paths, .truth = {}};
    split.paths.look_at_images = false;
    if (!splits.empty()) split.paths.categories = splits[0].truth.categories;
    DatasetReport report = check_label_maps(split.paths, split.truth, split.pixels);
    take_findings(split, std::move(report));
    if (!splits.empty() && splits[0].name == "train")
      if (std::string shared =
              remark_on_shared_images(splits[0].truth, splits[0].paths, split.truth, split.paths);
          !shared.empty())
        split.remarks.push_back(std::move(shared));
    splits.push_back(std::move(split));
  }
  return splits;
}

namespace {

namespace fs = std::filesystem;

// The limit of a PNG file with 8 bits; for more classes 16 are used.
constexpr int64_t kMaxOf8Bits = 255;

std::optional<DataSplits> sets_to_convert(const DataConvertArguments& arguments) {
  const bool is_asked = arguments.to == "label_maps";
  if ((!is_asked && arguments.to != "coco") || (!arguments.from.empty() && arguments.from != "label_maps"))
    return std::nullopt;
  SourceFlags flags{.annotations = "",
                    .images = arguments.images,
                    .data = {},
                    .choice = chosen_classes(arguments.classes, arguments.set),
                    .allow_outside = arguments.allow_outside,
                    .label_maps = set_label_maps(arguments.set)};
  if (arguments.images.empty()) {
    flags.data = {arguments.input};
    flags.data.insert(flags.data.end(), arguments.data.begin(), arguments.data.end());
  } else {
    flags.annotations = arguments.input;
  }
  if (std::optional<DataSplits> found = label_map_sets(flags)) return found;
  if (!is_asked) return std::nullopt;
  DataSplits found;
  if (flags.data.empty())
    found.train =
        DataPaths{.annotations = arguments.input, .images = arguments.images, .wants = {.label_maps = true}};
  else
    found = find_united(flags.data, {.wants = {.label_maps = true}});
  return with_flags(std::move(found), flags);
}

// Writes one split after another into subfolders of a folder.
class PlainFolders {
 public:
  PlainFolders(std::string folder, std::vector<std::string> classes)
      : folder_(std::move(folder)), classes_(std::move(classes)) {
    if (std::ssize(classes_) > kMaxOf8Bits) return;
    std::vector<int64_t> values(classes_.size());
    std::iota(values.begin(), values.end(), 0);
    palette_ = label_palette(values);
  }
  uint16_t ignored() const { return palette_.empty() ? LabelMap::kIgnored : uint16_t{255}; }

  void add(const Dataset& set, const std::string& split) {
    check_names(set);
    ProgressCounter progress(split, set.num_images(), "images");
    run_tasks(set.num_images(), 0, [&](int64_t i) {
      const std::string& name = set.file_name(i);
      const std::string image = joined(joined(folder_, "images/" + split), name),
                        map = joined(folder_, "masks/" + split + "/" + stem_of(name) + ".png");
      for (const std::string& file : {image, map}) fs::create_directories(fs::path(file).parent_path());
      std::error_code error;
      fs::copy_file(set.image_path(i), image, error);
      if (error) fail("{}: cannot be copied to {}: {}", set.image_path(i), image, error.message());
      LabelMap labels = set.label_map_of(i, image_size(image));
      for (uint16_t& label : labels.values)
        if (label == LabelMap::kIgnored) label = ignored();
      write_stored_pixels(map, labels.size, labels.values, palette_);
      progress.add(1);
    });
    progress.finish();
    images_ += set.num_images();
  }
  void finish() const {
    write_file(joined(folder_, "classes.txt"), fmt::format("{}\n", fmt::join(classes_, "\n")));
  }
  int64_t images() const { return images_; }

 private:
  static std::string stem_of(const std::string& name) {
    return fs::path(name).replace_extension("").string();
  }
  // Label maps are named after their images.
  static void check_names(const Dataset& set) {
    std::set<std::string> stems;
    for (int64_t i = 0; i < set.num_images(); ++i) {
      const fs::path name = set.file_name(i);
      if (name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end())
        fail_input("{}: leads out of the image folder, so it cannot be copied", escaped(name.string()));
      if (!stems.insert(stem_of(name.string())).second)
        fail_input("{}: differs from another image only in its extension, so both would share one label map",
                   set.image_path(i));
    }
  }

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<uint32_t> palette_;
  int64_t images_ = 0;
};

}  // namespace

std::optional<int> convert_label_maps(const DataConvertArguments& arguments) {
  const std::optional<DataSplits> found = sets_to_convert(arguments);
  if (!found) return std::nullopt;
  for (const auto& [flag, is_given] :
       {std::pair{"--rename", !arguments.rename.empty()}, std::pair{"--drop", !arguments.drop.empty()},
        std::pair{"--drop-empty", arguments.drop_empty}, std::pair{"--split", !arguments.shares.empty()},
        std::pair{"--most", arguments.most > 0}})
    if (is_given)
      fail_input("{}: does not work on label maps, expected --classes or --set data.class_map.NAME=AS", flag);
  if (arguments.seed > 0) print_line("note: --seed: changes nothing, nothing is drawn from label maps");
  std::error_code error;
  if (fs::exists(arguments.output, error) && !fs::is_empty(arguments.output, error))
    fail_input("{}: already exists, expected a new or empty folder for images and label maps",
               arguments.output);
  const fs::path output = normal_path(arguments.output);
  const MadeFolder made(output.string());
  const TemporaryPath part(make_own_folder((output / ".part").string()));
  std::unique_ptr<PlainFolders> folders;
  std::vector<Category> categories;
  for (auto [name, paths] : named_splits(*found)) {
    paths.categories = categories;
    std::vector<std::string> notes;
    const auto set = open_dataset(paths, LabelScheme::kContiguous, &notes);
    for (const std::string& note : notes) print_line(note);
    if (!folders) {
      categories = set->ground_truth().categories;
      check_class_list(set->class_names(), paths.name());
      folders = std::make_unique<PlainFolders>(part.path(), set->class_names());
    }
    folders->add(*set, name);
  }
  if (!folders) fail_input("{}: holds no images with label maps", arguments.input);
  folders->finish();
  for (const char* name : {"images", "masks", "classes.txt"}) {
    fs::rename(fs::path(part.path()) / name, output / name, error);
    if (error) fail("{}: cannot be written: {}", (output / name).string(), error.message());
  }
  print_line("{}: {} and label maps, {} numbered from 0; {} is no class", arguments.output,
             count_of(static_cast<int64_t>(folders->images()), "image", "images"),
             count_of(std::ssize(categories), "class", "classes"), folders->ignored());
  print_line("to train on it: saccade train --data {} --model semantic_fpn_r50",
             shell_word(arguments.output));
  return 0;
}

}  // namespace saccade
