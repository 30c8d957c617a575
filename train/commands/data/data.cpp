// saccade data: shapes (a synthetic data set), check (every fault of a data set), report (a page about it).
#include <filesystem>
#include <memory>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/checks/dataset_check.h"
#include "data/formats/checks/mask_check.h"
#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "data/pages/dataset_page.h"
#include "data/shapes/shapes_dataset.h"
#include "train/commands/commands.h"
#include "train/commands/data/label_maps.h"
#include "train/commands/data/outputs.h"
#include "train/commands/data/sources.h"
#include "train/commands/report_runs.h"
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
  print_line("wrote {0}/annotations.json and {1} in {0}/images, their label maps in {0}/label_maps",
             arguments.output, count_of(arguments.images, "image", "images"));
  return 0;
}

namespace {

// Prints what a check found; returns the number of problems.
int64_t tell(const DatasetReport& report, const std::string& name) {
  for (const std::string& line : report.summary) print_line(line);
  for (const std::string& line : report.remarks) print_line("note: {}", line);
  for (const std::string& line : report.problems.lines()) print_line(line);
  if (report.problems.count() == 0) print_line("{}: no problems found", name);
  return report.problems.count();
}

// For class folders or label maps.
int64_t check_class_splits(const SourceFlags& flags, const DataSplits& found, const std::string& fix,
                           bool masks) {
  if (masks)
    fail_input("--masks: {} holds class folders or label maps, which have no object masks", name_of(flags));
  if (!fix.empty())
    fail_input("--fix: {} holds class folders or label maps, which have no lists to write", name_of(flags));
  int64_t problems = 0;
  std::vector<Category> categories;
  GroundTruth training;
  const auto splits = named_splits(found);
  for (auto [name, paths] : splits) {
    paths.categories = categories;
    GroundTruth truth;
    DatasetReport report = check_dataset(paths, nullptr, 0, &truth);
    if (categories.empty()) categories = truth.categories;
    if (report.problems.count() == 0) {
      if (std::string shared = remark_on_shared_images(training, found.train.value_or(paths), truth, paths);
          !shared.empty())
        report.remarks.push_back(std::move(shared));
      if (name == "train") training = std::move(truth);
    }
    const std::string& place = paths.wants.label_maps ? paths.annotations : paths.images;
    problems += tell(report, splits.size() > 1 ? fmt::format("{} ({})", place, name) : place);
  }
  return problems;
}

int64_t check_detection_splits(const SourceFlags& flags, const std::string& fix, bool masks) {
  int64_t problems = 0;
  const std::vector<DataSource> sources = sources_of(flags, fix);
  std::unique_ptr<MadeFolder> folder;
  if (!fix.empty()) folder = prepare_outputs(sources, flags.data.empty() ? "" : fix, flags.data);
  std::vector<Category> categories;
  GroundTruth first;  // of the first split
  CocoLists lists;
  Written written;
  for (DataSource source : sources) {
    source.paths.categories = categories;
    GroundTruth left, all;
    DatasetReport report = check_dataset(source.paths, &left, 0, &all);
    if (!first.images.empty() && sources[0].name == "train")
      for (std::string& remark : remarks_on_split(first, sources[0].paths, all, source.paths))
        report.remarks.push_back(std::move(remark));
    std::vector<Category> expected = categories;  // a fault in a record of one was reported
    std::erase_if(expected, [&](const Category& c) { return is_faulty_category(all, c.id); });
    for (const std::string& conflict :
         category_conflicts(expected, all.categories, sources[0].paths.annotations))
      report.problems.add(fmt::format("{}: {}", source.paths.annotations, conflict));
    if (masks)
      check_all_have_masks(all, source.paths.annotations,
                           [&](const std::string& problem) { report.problems.add(problem); });
    if (masks && !fix.empty())
      if (const int64_t made = make_crowds_without_masks(left); made > 0)
        report.left_out.push_back(
            count_of(made, "object without a mask becomes a crowd", "objects without a mask become crowds") +
            ", which training leaves out and metrics ignore");
    if (categories.empty()) categories = all.categories;
    if (first.images.empty()) first = std::move(all);
    if (sources.size() > 1) print_line("{}, images in {}:", source.paths.annotations, source.paths.images);
    problems +=
        tell(report, sources.size() > 1 ? fmt::format("{} ({})", source.paths.annotations, source.name)
                                        : source.paths.annotations);
    if (fix.empty()) continue;
    if (!report.units.empty())  // cut to their images, such boxes would be wrong but look right
      fail_input("{}: {}; --fix only crops boxes and cannot tell which were meant", source.paths.annotations,
                 report.units);
    for (const std::string& line : report.left_out) print_line("{}: {}", source.output, line);
    if (left.images.empty() || left.categories.empty())
      fail_input("{}: nothing valid is left", source.paths.annotations);
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
    fail_input("--fix: writes one data set, got {}; data convert combines several", flags.data.size());
  auto check = [&](const SourceFlags& some) {
    std::optional<DataSplits> classes = label_map_sets(some);
    if (!classes) classes = class_folders(some);
    return classes ? check_class_splits(some, *classes, arguments.fix, arguments.masks)
                   : check_detection_splits(some, arguments.fix, arguments.masks);
  };
  int64_t problems = 0;
  if (flags.data.size() > 1)  // first each alone, with all its classes, to find faults where they are
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
  fail_input("{}: {} (listed above)", name_of(flags), count_of(problems, "problem", "problems"));
}

namespace {

// Throws InputError if the page would replace a file that it is about.
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
  take_findings(split, std::move(report));
  return split;
}

std::vector<ReportedSplit> class_splits(const DataSplits& found) {
  std::vector<ReportedSplit> splits;
  for (auto [name, paths] : named_splits(found)) {
    paths.look_at_images = false;
    if (!splits.empty()) paths.categories = splits[0].truth.categories;
    const auto set = open_dataset(paths);
    splits.push_back({.name = name, .paths = paths, .truth = set->ground_truth()});
    for (int64_t i = 0; i < set->num_images(); ++i)
      splits.back().image_classes.push_back(static_cast<size_t>(set->labels_of(i).at(0)));
  }
  return splits;
}

std::vector<ReportedSplit> reported_splits(const DataReportArguments& arguments) {
  const SourceFlags flags = flags_of(arguments);
  if (const std::optional<DataSplits> found = label_map_sets(flags)) {
    for (const auto& [name, paths] : named_splits(*found)) check_page(arguments, paths);
    return label_map_splits(*found);
  }
  if (const std::optional<DataSplits> found = class_folders(flags)) {
    for (const auto& [name, paths] : named_splits(*found)) check_page(arguments, paths);
    try {
      return class_splits(*found);
    } catch (const InputError& e) {
      fail_input("{} ({} is read as class folders, as it has no lists of boxes)", e.what(), name_of(flags));
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
  const NamedFile file = page_file(arguments.output);
  int64_t images = 0;
  for (const ReportedSplit& split : splits) images += std::ssize(split.truth.images);
  ProgressCounter progress("report", images, "images");
  const std::string page = dataset_page(splits, {.title = name_of(flags_of(arguments)),
                                                 .footer = "Written by saccade " SACCADE_VERSION ".",
                                                 .most_images = arguments.look_at,
                                                 .progress = [&progress] { progress.add(1); }});
  progress.finish();
  file.write(page);
  print_line("{}: {}, a page of {} KB", arguments.output, count_of(images, "image", "images"),
             page.size() / 1000);
  return 0;
}

}  // namespace saccade
