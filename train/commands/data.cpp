// saccade data: shapes (a synthetic data set), check (every fault of a data set), report (a page about it) and convert (any format to
// COCO json).
#include <filesystem>
#include <memory>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/dataset_fix.h"
#include "data/formats/checks/units.h"
#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "data/report/dataset_page.h"
#include "data/shapes/shapes_dataset.h"
#include "train/commands/coco_lists.h"
#include "train/commands/commands.h"
#include "train/commands/data_sources.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"

namespace saccade {

int run_data_shapes(const ShapesArguments& arguments) {
  ShapesOptions options;
  options.images = arguments.images;
  options.seed = arguments.seed;
  if (arguments.size > 0) options.min_side = options.max_side = arguments.size;
  ProgressCounter progress("shapes", arguments.images, "images");
  options.progress = [&progress](int64_t) { progress.add(1); };
  write_shapes_dataset(arguments.output, options);
  progress.finish();
  print_line("wrote {0}/annotations.json and {1} images in {0}/images, their label maps in {0}/label_maps",
             arguments.output, arguments.images);
  return 0;
}

namespace {

// The folder of the outputs, which must not be that of a data set: what is written there would be one of its lists of boxes.
std::unique_ptr<MadeFolder> prepare_outputs(const std::vector<DataSource>& sources, const std::string& folder,
                                            const std::vector<std::string>& data) {
  std::unique_ptr<MadeFolder> made;
  if (!folder.empty()) {
    std::error_code error;
    for (const std::string& place : data)
      if (std::filesystem::equivalent(folder, place, error))
        fail_input("{}: is the folder of the data set, expected another one for what is written of it",
                   folder);
    made = std::make_unique<MadeFolder>(folder);
  }
  for (const DataSource& source : sources) {
    for (const DataPaths& set : sets_of(source.paths))
      check_outputs({{"the output", source.output}}, {{"the annotations", set.annotations}});
    // A list that somebody else has written stays.
    if (is_old_file(source.output) && beginning_of(source.output, kWrittenList.size()) != kWrittenList)
      fail_input("{}: is there already and not written by saccade, expected another {}", source.output,
                 folder.empty() ? "name" : "folder");
  }
  return made;
}

// Of the first of the sources.
struct Written {
  size_t images = 0, boxes = 0;
};

// place: the folder that was written, or the one file. --data takes it where its lists alone are found in it.
void tell_how_to_train(const std::string& place, const std::vector<DataSource>& sources, Written written,
                       bool allow_outside) {
  const DataSource& training = sources[0];
  if (!training.name.empty() && training.name != "train") return;
  if (written.boxes == 0 || (written.images < 2 && sources.size() == 1))
    return print_line("{}: {} and {} are too little to train on", training.output,
                      count_of(static_cast<int64_t>(written.images), "image", "images"),
                      count_of(static_cast<int64_t>(written.boxes), "box", "boxes"));
  bool is_found = false;
  try {
    std::error_code error;
    const DataSplits found = look_for_splits(place);
    is_found = found.format == "coco" && found.train && found.train->annotations == training.output &&
               std::filesystem::equivalent(found.train->images, training.paths.images, error);
    for (const SplitNames& names : split_names())
      if (const auto& split = found.*names.split;
          is_found && split &&
          std::ranges::find(sources, split->annotations, &DataSource::output) == sources.end())
        print_line("note: {}: was there before and stays; --data {} takes it for the {} images",
                   split->annotations, shell_word(place), names.names[0]);
  } catch (const InputError&) {  // the place holds another data set, too
  }
  const char* outside = allow_outside ? " --set data.allow_outside=true" : "";
  if (is_found)
    print_line("to train on it: saccade train --data {} --model rt_detr_r18{}", shell_word(place), outside);
  else
    print_line(
        "to train on it with the --config of a recipe: --set data.train.annotations={} --set data.train.images={}{}",
        shell_word(training.output), shell_word(training.paths.images), outside);
}

// What a check found, in lines; how many problems.
int64_t tell(const DatasetReport& report, const std::string& name) {
  for (const std::string& line : report.summary) print_line(line);
  for (const std::string& line : report.remarks) print_line("note: {}", line);
  for (const std::string& line : report.problems.lines()) print_line(line);
  if (report.problems.count() == 0) print_line("{}: no problems found", name);
  return report.problems.count();
}

// Of class folders or label maps.
int64_t check_class_splits(const SourceFlags& flags, const DataSplits& found, const std::string& fix) {
  if (!fix.empty())
    fail_input("--fix: {} holds class folders or label maps, which have no lists to write", name_of(flags));
  int64_t problems = 0;
  std::vector<Category> categories;
  GroundTruth training;
  for (const SplitNames& names : split_names()) {
    if (!(found.*names.split)) continue;
    DataPaths paths = *(found.*names.split);
    paths.categories = categories;
    GroundTruth truth;
    DatasetReport report = check_dataset(paths, nullptr, 0, &truth);
    if (categories.empty()) categories = truth.categories;
    if (report.problems.count() == 0) {
      if (std::string shared = remark_on_shared_images(training, found.train.value_or(paths), truth, paths);
          !shared.empty())
        report.remarks.push_back(std::move(shared));
      if (names.names[0] == "train") training = std::move(truth);
    }
    problems += tell(report, paths.wants.label_maps ? paths.annotations : paths.images);
  }
  return problems;
}

int64_t check_detection_splits(const SourceFlags& flags, const std::string& fix) {
  int64_t problems = 0;
  const std::vector<DataSource> sources = sources_of(flags, fix);
  std::unique_ptr<MadeFolder> folder;
  if (!fix.empty()) folder = prepare_outputs(sources, flags.data.empty() ? "" : fix, flags.data);
  std::vector<Category> categories;
  GroundTruth first;  // of the splits
  CocoLists lists;
  Written written;
  for (DataSource source : sources) {
    source.paths.categories = categories;
    GroundTruth left, all;
    DatasetReport report = check_dataset(source.paths, &left, 0, &all);
    if (!first.images.empty() && sources[0].name == "train")
      for (std::string& remark : remarks_on_split(first, sources[0].paths, all, source.paths))
        report.remarks.push_back(std::move(remark));
    for (const std::string& conflict :
         category_conflicts(categories, all.categories, sources[0].paths.annotations))
      report.problems.add(fmt::format("{}: {}", source.paths.annotations, conflict));
    if (categories.empty()) categories = all.categories;
    if (first.images.empty()) first = std::move(all);
    if (sources.size() > 1) print_line("{}, images in {}:", source.paths.annotations, source.paths.images);
    problems += tell(report, source.paths.annotations);
    if (fix.empty()) continue;
    if (!report.units.empty())  // cut to their images, they would be wrong ones that look right
      fail_input("{}: --fix: {}; it cuts boxes, and cannot tell which were meant", source.paths.annotations,
                 report.units);
    for (const std::string& line : report.left_out) print_line("{}: {}", source.output, line);
    if (left.images.empty() || left.categories.empty())
      fail_input("{}: nothing that is right is left of it", source.paths.annotations);
    lists.add(source, left);
    if (written.images == 0) written = {left.images.size(), left.annotations.size()};
  }
  lists.write();
  if (!fix.empty()) tell_how_to_train(fix, sources, written, flags.allow_outside);
  return problems;
}

}  // namespace

namespace {

template <class Arguments>
SourceFlags flags_of(const Arguments& arguments) {
  return {arguments.annotations,   arguments.images,
          arguments.data,          chosen_classes(arguments.classes, arguments.set),
          arguments.allow_outside, set_label_maps(arguments.set)};
}

}  // namespace

int run_data_check(const CheckArguments& arguments) {
  const SourceFlags flags = flags_of(arguments);
  if (flags.data.size() > 1 && !arguments.fix.empty())
    fail_input("--fix: writes one data set, got {}; data convert unites several", flags.data.size());
  auto check = [&](const SourceFlags& some) {
    std::optional<DataSplits> classes = label_map_sets(some);
    if (!classes) classes = class_folders(some);
    return classes ? check_class_splits(some, *classes, arguments.fix)
                   : check_detection_splits(some, arguments.fix);
  };
  int64_t problems = 0;
  if (flags.data.size() > 1)  // each alone first, with all of its classes: what is wrong is wrong there
    for (const std::string& place : flags.data) {
      print_line("{}:", place);
      problems += check({.annotations = "",
                         .images = "",
                         .data = {place},
                         .allow_outside = arguments.allow_outside,
                         .label_maps = flags.label_maps});
    }
  if (problems == 0) {
    if (flags.data.size() > 1) print_line("{}:", name_of(flags));
    problems = check(flags);
  }
  if (problems == 0 || !arguments.fix.empty()) return 0;
  fail_input("{}: {} problem{}, listed above; expected none", name_of(flags), problems,
             problems == 1 ? "" : "s");
}

namespace {

// The page takes the place of no file that it is about.
void check_page(const DataReportArguments& arguments, const DataPaths& paths) {
  if (!paths.sets.empty()) {
    for (const DataPaths& set : paths.sets) check_page(arguments, set);
    return;
  }
  namespace fs = std::filesystem;
  if (has_image_extension(arguments.output))
    fail_input("{}: is the name of an image, expected one that ends in .html", arguments.output);
  check_outputs({{"--output", arguments.output}}, {{"the annotations", paths.annotations}});
  const OutputTarget target = output_target(arguments.output);
  if (!target.old || target.is_device) return;
  const fs::path page = fs::weakly_canonical(target.path);
  if (page.extension() == ".html" || page.extension() == ".htm") return;
  std::vector<std::string> folders = arguments.data;
  folders.insert(folders.end(), {paths.images, paths.annotations});
  for (const std::string& folder : folders) {
    if (!is_folder(folder)) continue;
    if (const fs::path below = page.lexically_relative(fs::weakly_canonical(folder));
        !below.empty() && *below.begin() != "..")
      fail_input("{}: is a file in the folder of the data set {}, expected a name that ends in .html",
                 arguments.output, folder);
  }
}

ReportedSplit read_for_report(const DataSource& source, const std::vector<Category>& categories) {
  if (!source.paths.images.empty() && !is_folder(source.paths.images))
    fail_input("{}: no such folder of images", source.paths.images);
  ReportedSplit split{.name = source.name.empty() ? "all" : source.name, .paths = source.paths, .truth = {}};
  split.paths.categories = categories;
  split.paths.look_at_images = false;
  DatasetReport report = check_dataset(split.paths, nullptr, 0, &split.truth);
  if (split.truth.images.empty() || split.truth.categories.empty()) {
    const std::vector<std::string> lines = report.problems.lines();
    fail_input("{}", lines.empty() ? source.paths.annotations + ": there is nothing in it" : lines.front());
  }
  split.problems = std::move(report.problems);
  split.remarks = std::move(report.remarks);
  return split;
}

std::vector<ReportedSplit> class_splits(const DataSplits& found) {
  std::vector<ReportedSplit> splits;
  for (const SplitNames& names : split_names()) {
    if (!(found.*names.split)) continue;
    DataPaths paths = *(found.*names.split);
    paths.look_at_images = false;
    if (!splits.empty()) paths.categories = splits[0].truth.categories;
    const auto set = open_dataset(paths);
    splits.push_back({.name = names.names[0], .paths = paths, .truth = set->ground_truth()});
    for (int64_t i = 0; i < set->num_images(); ++i)
      splits.back().image_classes.push_back(static_cast<size_t>(set->labels_of(i).at(0)));
  }
  return splits;
}

std::vector<ReportedSplit> reported_splits(const DataReportArguments& arguments) {
  const SourceFlags flags = flags_of(arguments);
  if (const std::optional<DataSplits> found = class_folders(flags)) {
    for (const SplitNames& names : split_names())
      if (const auto& paths = *found.*names.split) check_page(arguments, *paths);
    try {
      return class_splits(*found);
    } catch (const InputError& e) {
      fail_input("{} ({} is read as class folders, as no lists of boxes are found in it)", e.what(),
                 name_of(flags));
    }
  }
  const std::vector<DataSource> sources = sources_of(flags);
  for (const DataSource& source : sources) check_page(arguments, source.paths);
  std::vector<ReportedSplit> splits;
  std::vector<Category> categories;
  for (const DataSource& source : sources) {
    splits.push_back(read_for_report(source, categories));
    if (splits.size() > 1 && splits[0].name == "train")
      for (std::string& remark :
           remarks_on_split(splits[0].truth, splits[0].paths, splits.back().truth, source.paths))
        splits.back().remarks.push_back(std::move(remark));
    if (categories.empty()) categories = splits.back().truth.categories;
  }
  return splits;
}

}  // namespace

int run_data_report(const DataReportArguments& arguments) {
  std::vector<ReportedSplit> splits = reported_splits(arguments);
  const bool replaces = replaces_page(arguments.output);
  int64_t images = 0;
  for (const ReportedSplit& split : splits) images += std::ssize(split.truth.images);
  ProgressCounter progress("report", images, "images");
  const std::string page = dataset_page(splits, {.title = name_of(flags_of(arguments)),
                                                 .footer = "Written by saccade " SACCADE_VERSION ".",
                                                 .most_images = arguments.look_at,
                                                 .progress = [&progress] { progress.add(1); }});
  progress.finish();
  write_file(arguments.output, std::string_view(page));
  print_line("{}: {} images, a page of {} KB", arguments.output, images, page.size() / 1000);
  if (replaces) print_line("{}: replaces the file that was there", arguments.output);
  return 0;
}

int run_data_convert(const DataConvertArguments& arguments) {
  if (arguments.to != "coco") fail_input("--to: \"{}\" cannot be written, expected coco", arguments.to);
  if (!arguments.from.empty()) find_format(arguments.from, {.boxes = true}, "--from");
  const ClassChoice choice = chosen_classes(arguments.classes, arguments.set);
  std::vector<DataSource> sources;
  std::vector<std::string> places{arguments.input};
  places.insert(places.end(), arguments.data.begin(), arguments.data.end());
  if (!arguments.images.empty() && !arguments.data.empty())
    fail_input("--images: {} beside --data, expected IN to be a folder as --data takes it", arguments.images);
  if (!arguments.images.empty())
    sources.push_back({{.annotations = arguments.input, .images = arguments.images, .format = arguments.from},
                       joined(arguments.output, "annotations.json")});
  else if (std::filesystem::is_directory(arguments.input) ||
           (is_file(arguments.input) && look_for_splits(arguments.input, arguments.from).format == "yolo"))
    sources = splits_of(places, arguments.from, arguments.output);
  else
    fail_input("--images: not given, expected the folder of the images of {}, or a folder in its place",
               arguments.input);
  const auto folder = prepare_outputs(sources, arguments.output,
                                      arguments.images.empty() ? places : std::vector<std::string>());
  CocoLists lists;
  Written written;
  std::vector<Category> categories;
  for (DataSource& source : sources) {
    source.paths.allow_outside = arguments.allow_outside;
    source.paths.choice = choice;
    source.paths.categories = categories;
    std::vector<std::string> notes;
    auto dataset = open_dataset(with_masks(source.paths), LabelScheme::kContiguous, &notes);
    for (const std::string& note : notes) print_line(note);
    GroundTruth truth = dataset->ground_truth();
    run_tasks(std::ssize(truth.images), 0, [&](int64_t i) {
      ImageInfo& image = truth.images[static_cast<size_t>(i)];
      if (image.width > 0 && image.height > 0) return;
      const ImageSize size = image_size(dataset->image_path(i));
      image.width = size.width;
      image.height = size.height;
    });
    if (categories.empty()) categories = truth.categories;
    if (const std::string line = leave_out_empty_boxes(truth); !line.empty())
      print_line("{}: {}", source.output, line);
    for (const std::string& remark : remarks_on_figures(truth))
      print_line("note: {}: {}", source.paths.annotations, remark);
    lists.add(source, truth);
    if (written.images == 0) written = {truth.images.size(), truth.annotations.size()};
  }
  lists.write();
  tell_how_to_train(arguments.output, sources, written, arguments.allow_outside);
  return 0;
}

}  // namespace saccade
