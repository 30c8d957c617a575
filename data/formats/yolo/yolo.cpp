// YOLO: a text file for each image, with one line per object: its class and, as fractions of the image, the
// centre and the size of its box, or the corners of a polygon, which stands for the box around it. The names
// of the classes are in data.yaml or a list next to it. The labels of a/images/b.jpg are in a/labels/b.txt,
// or next to the image. docs/formats.md lists what is accepted and what is refused.
#include <algorithm>
#include <map>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/formats/yolo/yolo_labels.h"
#include "data/formats/yolo/yolo_sets.h"
#include "data/images/image.h"

namespace saccade {
namespace {

struct LabelledImage {
  ImageSize size;  // 0 if the file cannot be read
  YoloLabels labels;
  std::vector<std::string> problems;
  std::string path;  // of the labels; "" if there are none
};

LabelledImage read_labelled(const YoloImage& image, const std::string& root, const std::string& labels,
                            const YoloYaml& set, bool masks, const NamedFolder* inside) {
  LabelledImage out;
  // The code that inspects the images reports names that lead out of the folder, and unreadable images.
  if (inside != nullptr && !inside->refusal(image.name).empty()) return out;
  try {
    out.size = image_size(joined(root, image.name));
  } catch (const InputError&) {
  }
  out.path = labels;
  if (!out.path.empty()) out.labels = read_yolo_labels(out.path, set, out.size, masks, out.problems);
  return out;
}

// Returns the images of the paths: those of a split that the file names, or of a folder.
YoloImages images_of_paths(const DataPaths& paths, const YoloYaml& set) {
  if (paths.split.empty() && !paths.images.empty())
    return images_of({{paths.images, false}}, paths.images, set, paths.annotations);
  if (paths.split.empty() && set.splits.size() > 1)
    fail_input(
        "{}: names the images of several splits, expected one of them: --data and --split, or the folder of the images",
        paths.annotations);
  const std::string split = !paths.split.empty() ? paths.split
                            : set.splits.empty() ? ""
                                                 : set.splits.begin()->first;
  const std::vector<YoloSource> sources = sources_of(set, paths.annotations, split);
  if (sources.empty())
    fail_input("{}: YOLO labels are found by their images, expected the folder of the images",
               paths.annotations);
  const std::string root = paths.images.empty() ? common_root(sources, set, paths.annotations) : paths.images;
  return images_of(sources, root, set, paths.annotations);
}

// Adds notes on images without labels and labels without an image.
void note_pairs(const std::vector<LabelledImage>& found, const YoloImages& images, GroundTruth& truth) {
  int64_t without = 0;
  size_t first = 0;
  std::vector<std::string> used;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].path.empty())
      used.push_back(found[i].path);
    else if (++without == 1)
      first = i;
  }
  if (without > 0)
    truth.notes.push_back(
        fmt::format("{} no label file and {}, for example {} (expected {})",
                    count_among(without, std::ssize(found), "images in " + images.root, "has", "have"),
                    without == 1 ? "counts as an image without objects" : "count as images without objects",
                    images.images[first].name, expected_label_file(images.root, images.images[first])));
  std::map<std::string, size_t> images_of;  // label files
  int64_t sharing = 0;
  std::string shared;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].path.empty()) continue;
    const auto [other, is_new] = images_of.emplace(found[i].path, i);
    if (!is_new && ++sharing == 1)
      shared =
          fmt::format("{} ({}, {})", found[i].path, images.images[other->second].name, images.images[i].name);
  }
  if (sharing > 0)
    truth.notes.push_back(fmt::format("{} the label file of another image, for example {}",
                                      count_of(sharing, "image shares", "images share"), shared));
  const std::vector<std::string> alone = labels_without_image(images, used);
  if (!alone.empty())
    truth.notes.push_back(fmt::format("{} to no image, for example {}",
                                      count_of(std::ssize(alone), "label file belongs", "label files belong"),
                                      alone.front()));
  truth.notes.insert(truth.notes.end(), images.notes.begin(), images.notes.end());
  truth.links = images.links;
  truth.names_all_images = images.lists.empty();
}

GroundTruth read_yolo(const DataPaths& paths, const ProblemReport& report) {
  const YoloYaml set = read_yolo_description(paths.annotations);
  const YoloImages images = images_of_paths(paths, set);
  GroundTruth truth;
  truth.categories = number_classes(set.names, paths);
  const std::map<std::string, int64_t> ids = ids_by_name(truth.categories);
  std::optional<NamedFolder> inside;
  if (!paths.allow_outside) inside.emplace(images.root, images.links);
  std::vector<LabelledImage> found(images.images.size());
  if (paths.wants.is_empty()) {  // only the names of the images
    for (const YoloImage& image : images.images) truth.images.push_back({.file_name = image.name});
    return truth;
  }
  const std::vector<std::string> labels = label_files(images);
  run_tasks(std::ssize(found), 0, [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    found[k] = read_labelled(images.images[k], images.root, labels[k], set, paths.wants.masks,
                             inside ? &*inside : nullptr);
  });
  const bool has_none = std::ranges::all_of(found, [](const LabelledImage& f) { return f.path.empty(); });
  if (paths.may_lack_annotations)
    truth.is_annotated = !has_none;
  else if (!found.empty() && has_none)
    report(fmt::format("{}: none of the images in {} has labels, expected them in files like {}",
                       paths.annotations, images.root, expected_label_file(images.root, images.images[0])));
  const Place whole = truth.add_file(paths.annotations);
  for (const std::string& list : images.lists) truth.add_file(list);
  LabelKinds kinds;
  for (size_t i = 0; i < found.size(); ++i) {
    const LabelledImage& f = found[i];
    const YoloImage& image = images.images[i];
    add_image(truth, image.name, f.size.width, f.size.height,
              {whole.file + static_cast<uint32_t>(image.list), image.line});
    const Place file = f.labels.objects.empty() ? Place() : truth.add_file(f.path);
    kinds.add(f.labels.kinds);
    for (const std::string& problem : f.problems) report(problem);
    add_objects(truth, f.labels.objects, ids, file, paths, report);
  }
  note_pairs(found, images, truth);
  if (std::string note = kinds.note(); !note.empty()) truth.notes.push_back(std::move(note));
  return truth;
}

std::vector<std::string> labels_of(const YoloYaml& set, const std::vector<YoloSource>& lists,
                                   const DataPaths& paths) {
  const YoloImages named = images_of(lists, paths.images, set, paths.annotations);
  std::vector<std::string> labels = label_files(named);
  std::erase(labels, "");
  return labels;
}

std::vector<std::string> labels_named_in(const std::string& list, const DataPaths& paths) {
  const std::vector<TextLine> lines = text_lines(head_of(list, kTextFile));
  if (lower_extension(list) != ".txt" || lines.empty() || !has_image_extension(lines[0].text)) return {};
  return labels_of(read_yolo_description(paths.annotations), {{list, true}}, paths);
}

std::vector<std::string> yolo_places(const DataPaths& paths) {
  if (paths.split.empty()) return {paths.images, label_folder(paths.images)};
  const YoloYaml set = read_yolo_description(paths.annotations);
  std::vector<YoloSource> lists;
  std::vector<std::string> places;
  for (YoloSource& source : sources_of(set, paths.annotations, paths.split)) {
    places.push_back(source.place);
    if (source.is_list)
      lists.push_back(std::move(source));
    else
      places.push_back(label_folder(source.place));
  }
  for (std::string& label : labels_of(set, lists, paths)) places.push_back(std::move(label));
  return places;
}

[[maybe_unused]] const bool yolo_registered = data_formats().add(
    {.name = "yolo",
     .summary =
         "YOLO: a text file of boxes for each image, and data.yaml, obj.data or classes.txt with the names of the classes",
     .recognises =
         [](const DataPaths& paths) {
           return is_yolo_yaml(paths.annotations) || is_class_list(paths.annotations) ||
                  is_darknet_data(paths.annotations);
         },
     .read = read_yolo,
     .layout = "data.yaml, obj.data, or classes.txt with images and labels",
     .find = find_yolo,
     .find_in_file = find_yolo_in_file,
     .label_endings = {".txt", ".TXT"},
     .holds_labels = is_label_file,
     .label_places = yolo_places,
     .named_in = labels_named_in,
     .provides = {.boxes = true, .masks = true}});

}  // namespace
}  // namespace saccade
