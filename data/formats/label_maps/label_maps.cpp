// Label maps: a PNG file for each image, whose pixels give the classes of the image's pixels.
#include <fmt/format.h>
#include <algorithm>

#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/formats/label_maps/class_table.h"
#include "data/formats/label_maps/pairs.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/images/image.h"
#include "data/images/stored_pixels.h"

namespace saccade {
namespace {

constexpr int kThreads = 16;  // which mostly wait for the disk

// Returns an error text about a pair from its files' heads, or "". size: that of the label map.
std::string fault_of(const LabelledImage& pair, const std::string& images, bool look_at_image,
                     ImageSize& size) {
  try {
    size = check_stored_pixels(pair.label);
  } catch (const InputError& e) {
    return e.what();
  }
  if (!look_at_image) return "";
  const std::string path = joined(images, pair.image);
  ImageSize image;
  try {
    image = check_image_file(path).size;
  } catch (const InputError&) {  // the code that inspects the images reports it
    return "";
  }
  if (image == size) return "";
  return fmt::format("{}: has {} x {} pixels, but its image {} has {} x {}", pair.label, size.width,
                     size.height, path, image.width, image.height);
}

GroundTruth read_label_maps(const DataPaths& paths, const ProblemReport& report) {
  const LabelledImages set = pair_images(paths, report);
  const auto count = std::ssize(set.pairs);
  std::vector<std::string> faults(set.pairs.size());
  std::vector<ImageSize> sizes(set.pairs.size());
  run_tasks(count, kThreads, [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    faults[k] = fault_of(set.pairs[k], set.images, !paths.images.empty() && paths.look_at_images, sizes[k]);
  });
  std::vector<std::string> files;
  for (const LabelledImage& pair : set.pairs) files.push_back(pair.label);
  if (paths.label_maps.names.empty() && paths.label_maps.list.empty() && paths.categories.empty())
    for_each_beside(paths, [&](const DataPaths& other) {
      if (!are_label_maps(other)) return;
      for (const LabelledImage& pair : pair_images(other, [](const std::string&) {}).pairs)
        files.push_back(pair.label);
    });
  ClassTable table = class_table(paths.label_maps, set.list_folders, set.layout, files, paths.categories);
  GroundTruth truth;
  truth.categories = std::move(table.categories);
  if (truth.categories.empty() && std::ranges::all_of(faults, &std::string::empty))
    fail_input("{}: no pixel of its {} has a class: all have values that are ignored (data.label_maps)",
               paths.annotations, count_of(count, "label map", "label maps"));
  truth.names_all_images = set.are_all;
  truth.links = set.links;
  for (size_t i = 0; i < set.pairs.size(); ++i) {
    if (!faults[i].empty()) {
      report(faults[i]);
      continue;
    }
    truth.images.push_back({.id = static_cast<int64_t>(i) + 1,
                            .file_name = set.pairs[i].image,
                            .width = sizes[i].width,
                            .height = sizes[i].height,
                            .place = truth.add_file(set.pairs[i].label),
                            .label_file = set.pairs[i].label,
                            .label_values = table.values});
  }
  if (truth.images.empty()) fail_input("{}: no image has a label map that can be read", paths.annotations);
  truth.told.push_back(fmt::format("{}: {} of {}", paths.annotations,
                                   count_of(std::ssize(truth.images), "label map", "label maps"),
                                   count_of(std::ssize(truth.categories), "class", "classes")));
  for (const auto& notes : {table.notes, set.notes})
    for (const std::string& note : notes)
      truth.told.push_back(fmt::format("note: {}: {}", paths.annotations, note));
  return truth;
}

[[maybe_unused]] const bool label_maps_registered = data_formats().add(
    {.name = "label_maps",
     .summary = "label maps: a PNG file for each image, as in ADE20K, Cityscapes, Pascal VOC and CVAT",
     .recognises = are_label_maps,
     .read = read_label_maps,
     .layout =
         "images and annotations (or masks, labels), or img_dir and ann_dir, with the splits in both; "
         "leftImg8bit and gtFine; JPEGImages and SegmentationClass; folders train and val with images and "
         "masks in each",
     .find = find_label_maps,
     .has_category_ids = true,
     .provides = {.label_maps = true}});

}  // namespace
}  // namespace saccade
