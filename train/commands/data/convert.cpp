// saccade data convert: converts any format to COCO json, YOLO or Pascal VOC; on the way, data sets can be
// merged, split and cut.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "data/formats/checks/dataset_fix.h"
#include "data/formats/checks/units.h"
#include "data/formats/coco/coco.h"
#include "data/formats/data_format.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "data/images/image.h"
#include "data/labels/label_forms.h"
#include "train/commands/commands.h"
#include "train/commands/data/label_maps.h"
#include "train/commands/data/outputs.h"
#include "train/commands/data/sources.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// A split to be written.
struct ReadSplit {
  DataSource source;
  GroundTruth truth;
};

// The choice that --classes, --set, --rename and --drop make.
ClassChoice convert_choice(const DataConvertArguments& arguments) {
  ClassChoice choice = chosen_classes(arguments.classes, arguments.set);
  auto add = [&](const char* flag, const std::string& name, const std::string& as) {
    for (const ClassChoice::Mapping& other : choice.map)
      if (other.name == name)
        fail_input("{} {}: renames or drops this class twice, expected once", flag, shortened(name));
    choice.map.push_back({name, as});
  };
  for (const std::string& rename : arguments.rename) {
    const size_t equals = rename.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == rename.size())
      fail_input("--rename {}: expected NAME=AS", shortened(rename));
    add("--rename", rename.substr(0, equals), rename.substr(equals + 1));
  }
  for (const std::string& name : arguments.drop) add("--drop", name, "");
  choice.empties_stay = !arguments.drop_empty;
  return choice;
}

void check_shares(const std::vector<double>& shares) {
  if (shares.empty()) return;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool fits = std::ranges::all_of(shares, [](double share) { return share > 0 && share < 1; });
  if (shares.size() < 2 || shares.size() > split_names().size() || !fits || !(std::abs(sum - 1) < 1e-6))
    fail_input(
        "--split {}: expected two or three fractions that add up to 1 (of training, validation and test images), such as 0.8,0.2",
        fmt::join(shares, ","));
}

std::vector<DataSource> convert_sources(const DataConvertArguments& arguments,
                                        const std::vector<std::string>& places) {
  if (!arguments.images.empty() && !arguments.data.empty())
    fail_input("--images and --data cannot be combined, expected IN to be a data set folder, as for --data");
  if (!arguments.images.empty())
    return {{{.annotations = arguments.input, .images = arguments.images, .format = arguments.from},
             joined(arguments.output, "annotations.json")}};
  if (fs::is_directory(arguments.input) ||
      (is_file(arguments.input) && look_for_splits(arguments.input, arguments.from).format == "yolo"))
    return splits_of(places, arguments.from, arguments.output);
  fail_input("--images: not given, expected the folder of the images of {}, or a data set folder as IN",
             arguments.input);
}

// Merges all splits into one, which is then split again.
void unite_sources(std::vector<DataSource>& sources) {
  std::vector<DataPaths> sets;
  for (const DataSource& source : sources)
    for (const DataPaths& set : sets_of(source.paths)) sets.push_back(set);
  sources = {{unite_paths(sets), "", ""}};
}

GroundTruth read_source(DataSource& source, const std::vector<Category>& categories,
                        const ClassChoice& choice, bool allow_outside) {
  source.paths.allow_outside = allow_outside;
  source.paths.choice = choice;
  source.paths.categories = categories;
  std::vector<std::string> notes;
  auto dataset = open_dataset(with_masks(source.paths), LabelScheme::kContiguous, &notes);
  for (const std::string& note : notes) print_line(note);
  GroundTruth truth = dataset->ground_truth();
  // Lists may have other sizes than the files, which training uses.
  run_tasks(std::ssize(truth.images), 0, [&](int64_t i) {
    ImageInfo& image = truth.images[static_cast<size_t>(i)];
    const ImageSize size = image_size(dataset->image_path(i));
    image.width = size.width;
    image.height = size.height;
  });
  if (const std::string line = leave_out_empty_boxes(truth); !line.empty())
    print_line("{}: {}", source.output.empty() ? source.paths.annotations : source.output, line);
  for (const std::string& remark : remarks_on_metrics(truth))
    print_line("note: {}: {}", source.paths.annotations, remark);
  return truth;
}

std::vector<const ImageInfo*> drawn_to_convert(const GroundTruth& truth, uint64_t seed) {
  return drawn_order(truth, seed ^ hash_name("data convert"));
}

// Returns the part with only these images.
GroundTruth part_with(const GroundTruth& truth, std::span<const ImageInfo* const> images) {
  std::set<int64_t> ids;
  for (const ImageInfo* image : images) ids.insert(image->id);
  GroundTruth part = truth;
  keep_images(part, [&](int64_t id) { return ids.contains(id); });
  return part;
}

void leave_out_empty_images(ReadSplit& split) {
  std::set<int64_t> ids;
  for (const Annotation& a : split.truth.annotations) ids.insert(a.image_id);
  const size_t before = split.truth.images.size();
  std::erase_if(split.truth.images, [&](const ImageInfo& image) { return !ids.contains(image.id); });
  const std::string& place = split.source.paths.annotations;
  if (split.truth.images.empty())
    fail_input("--drop-empty: {}: has no box of these classes in {}", place,
               count_of(static_cast<int64_t>(before), "image", "images"));
  if (const size_t left_out = before - split.truth.images.size(); left_out > 0)
    print_line("{}: {}", place,
               count_among(static_cast<int64_t>(left_out), static_cast<int64_t>(before), "images",
                           "has no box and is left out", "have no box and are left out"));
}

std::vector<ReadSplit> divide(const GroundTruth& all, const std::vector<DataSource>& sources,
                              const DataConvertArguments& arguments) {
  const std::vector<const ImageInfo*> order = drawn_to_convert(all, arguments.seed);
  std::vector<ReadSplit> out;
  double share = 0;
  size_t begin = 0;
  for (size_t i = 0; i < arguments.shares.size(); ++i) {
    share += arguments.shares[i];
    const size_t end = i + 1 == arguments.shares.size()
                           ? order.size()
                           : static_cast<size_t>(std::llround(share * static_cast<double>(order.size())));
    if (end <= begin)
      fail_input("--split {}: {} too few for that", fmt::join(arguments.shares, ","),
                 count_of(std::ssize(order), "image is", "images are"));
    out.push_back({sources[i], part_with(all, std::span(order).subspan(begin, end - begin))});
    begin = end;
  }
  return out;
}

void check_new_folder(const std::string& output, const std::string& form) {
  std::error_code error;
  if (fs::exists(output, error) && (!fs::is_directory(output, error) || !fs::is_empty(output, error)))
    fail_input("{}: already exists, expected a new folder for the {} files", output, form);
}

// Other forms than COCO's identify classes by their names.
void check_class_names(const std::vector<Category>& categories, const std::string& data,
                       const std::string& form) {
  std::set<std::string> names;
  for (const Category& c : categories) {
    if (c.name.empty())
      fail_input("{}: category {} has no name, expected one, as {} identifies classes by name", data, c.id,
                 form);
    if (!names.insert(c.name).second)
      fail_input(
          "{}: several categories have the name \"{}\", expected one, as {} identifies classes by name", data,
          printable(c.name), form);
  }
}

void check_inputs(const std::vector<std::string>& places) {
  for (const std::string& place : places) {
    std::error_code error;
    if (!fs::exists(place, error))
      fail_input("{}: {}", place, error ? error.message() : "no such file or folder");
  }
}

// Links the file under another name, or copies it if the file systems differ.
void put_picture(const std::string& from, const fs::path& to) {
  std::error_code error;
  const fs::path file = fs::canonical(from);
  fs::create_hard_link(file, to, error);
  if (error) fs::copy_file(file, to);
}

// Writes all files to a new folder.
void write_form(const LabelForm& form, const std::vector<ReadSplit>& splits, const std::string& output) {
  std::vector<LabelList> lists;
  for (const ReadSplit& split : splits)
    lists.push_back({.truth = split.truth,
                     .split = split.source.name.empty() ? "train" : split.source.name,
                     .images = split.source.paths.images,
                     .description = kWrittenFrom + split.source.paths.annotations});
  const LabelFiles files = form.write(lists);
  const MadeFolder folder(output);
  const TemporaryPath own(make_own_folder((fs::path(output) / ".convert").string()));
  auto place = [&](const std::string& name) {
    fs::path path = fs::path(own.path()) / name;
    fs::create_directories(path.parent_path());
    return path;
  };
  for (const LabelFiles::File& file : files.files)
    write_file(place(file.name).string(), std::string_view(file.text));
  for (const LabelFiles::Pictures& pictures : files.pictures)
    for (const ImageInfo& image : lists[pictures.list].truth.images)
      put_picture(
          joined(lists[pictures.list].images, image.file_name),
          place(pictures.name + "/" + fs::path(image.file_name).relative_path().lexically_normal().string()));
  std::vector<fs::path> made;
  for (const auto& entry : fs::directory_iterator(own.path())) made.push_back(entry.path());
  for (const fs::path& path : made) fs::rename(path, fs::path(output) / path.filename());
  for (const std::string& note : files.notes) print_line("note: {}: {}", output, note);
  for (const LabelList& list : lists)
    print_line("{}: {} as {}: {}", output, list.split, form.name,
               counts_of_list(list.truth, list.images, form.has_crowds ? 0 : crowds_of(list)));
  const GroundTruth& first = lists[0].truth;
  if (const std::string why =
          why_not_to_train({first.images.size(), first.annotations.size()}, lists.size() == 1);
      lists[0].split == "train" && !why.empty())
    return print_line("{}: {}", output, why);
  print_line("to train on it: saccade train --data {} --model rt_detr_r18", shell_word(output));
}

// The splits whose lists will be written, before they are read.
std::vector<DataSource> planned(const std::vector<DataSource>& sources,
                                const DataConvertArguments& arguments) {
  if (arguments.shares.empty()) return sources;
  std::vector<DataSource> out;
  for (size_t i = 0; i < arguments.shares.size(); ++i) {
    const std::string& name = split_names()[i].names[0];
    out.push_back({sources[0].paths, joined(arguments.output, name + ".json"), name});
  }
  return out;
}

void write_coco(const std::vector<ReadSplit>& splits, const DataConvertArguments& arguments) {
  CocoLists lists;
  std::vector<DataSource> sources;
  for (const ReadSplit& split : splits) {
    lists.add(split.source, split.truth);
    sources.push_back(split.source);
  }
  lists.write();
  tell_how_to_train(arguments.output, sources,
                    {splits[0].truth.images.size(), splits[0].truth.annotations.size()},
                    arguments.allow_outside);
}

}  // namespace

int run_data_convert(const DataConvertArguments& arguments) {
  std::vector<std::string> places{arguments.input};
  places.insert(places.end(), arguments.data.begin(), arguments.data.end());
  check_inputs(places);
  if (const std::optional<int> status = convert_label_maps(arguments)) return *status;
  const std::vector<std::string> forms = readable_forms();
  if (std::ranges::find(forms, arguments.to) == forms.end())
    fail_input("--to: \"{}\" cannot be written, expected one of {}, label_maps", arguments.to,
               fmt::join(forms, ", "));
  if (!arguments.from.empty()) find_format(arguments.from, {.boxes = true}, "--from");
  check_shares(arguments.shares);
  if (arguments.seed > 0 && arguments.shares.empty() && arguments.most == 0)
    print_line("note: --seed: changes nothing without --split or --most");
  const ClassChoice choice = convert_choice(arguments);
  std::vector<DataSource> sources = convert_sources(arguments, places);
  if (!arguments.shares.empty()) unite_sources(sources);
  const std::vector<DataSource> written = planned(sources, arguments);
  std::unique_ptr<MadeFolder> folder;
  if (arguments.to == "coco")
    folder = prepare_outputs(written, arguments.output,
                             arguments.images.empty() ? places : std::vector<std::string>());
  else
    check_new_folder(arguments.output, arguments.to);
  std::vector<ReadSplit> splits;
  for (DataSource& source : sources) {
    const std::vector<Category> known = splits.empty() ? std::vector<Category>() : splits[0].truth.categories;
    GroundTruth truth = read_source(source, known, choice, arguments.allow_outside);
    splits.push_back({source, std::move(truth)});
    if (arguments.drop_empty) leave_out_empty_images(splits.back());
  }
  if (arguments.to != "coco")
    check_class_names(splits[0].truth.categories, splits[0].source.paths.annotations, arguments.to);
  if (!arguments.shares.empty()) splits = divide(splits[0].truth, written, arguments);
  if (arguments.most > 0)
    for (ReadSplit& split : splits) {
      std::vector<const ImageInfo*> order = drawn_to_convert(split.truth, arguments.seed);
      order.resize(std::min(order.size(), static_cast<size_t>(arguments.most)));
      split.truth = part_with(split.truth, order);
    }
  if (arguments.to == "coco")
    write_coco(splits, arguments);
  else
    write_form(label_forms().find(arguments.to), splits, arguments.output);
  return 0;
}

}  // namespace saccade
