#include "data/formats/label_maps/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"
#include "data/images/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMasks = "SegmentationClass";
// What a label map's name may have after the image's name.
constexpr std::string_view kEndings[] = {"", "_mask", "_label", "_labels", "_seg"};
constexpr std::string_view kCityscapesImage = "_leftImg8bit";
// The ending of a label map that is next to its image, as in Roboflow's export.
constexpr std::string_view kBesideImage = "_mask.png";

bool is_label_list(const std::string& path) {
  return path.ends_with(".txt") && fs::path(path).parent_path().filename() == "Segmentation";
}

std::string without_ending(const std::string& name) { return fs::path(name).replace_extension("").string(); }

// The folders that may have a list of classes: that of the maps, the one above it, and the one above a split.
std::vector<std::string> folders_of_lists(const std::string& labels) {
  const fs::path own = normal_path(labels), above = own.parent_path();
  std::vector<std::string> folders{labels, above.string()};
  if (split_by_name(own.filename().string()) || split_by_name(above.filename().string()))
    folders.push_back(above.parent_path().string());
  return folders;
}

bool holds_maps(const std::string& folder) {
  return is_folder(folder) && (has_files_below(folder, ".png") || has_files_below(folder, ".PNG"));
}

// The relevant maps of a folder, by the significant part of their names.
struct MapFiles {
  LabelLayout layout = LabelLayout::kPlain;
  std::map<std::string, std::string> by_stem;
  std::vector<std::pair<std::string, std::string>> twins;  // another one of the same stem, and the first
};

MapFiles label_files(const std::string& folder, bool beside_images) {
  MapFiles files;
  if (beside_images) {
    for (const std::string& name : list_files_below(folder, std::string(kBesideImage)))
      files.by_stem.emplace(without_ending(name), name);
    return files;
  }
  std::vector<std::string> names = list_files_below(folder, ".png");
  std::ranges::copy(list_files_below(folder, ".PNG"), std::back_inserter(names));
  constexpr std::string_view kIds = "_labelIds.png", kTrainIds = "_labelTrainIds.png";
  const auto ids = std::ranges::count_if(names, [&](auto& name) { return name.ends_with(kIds); });
  const auto train_ids = std::ranges::count_if(names, [&](auto& name) { return name.ends_with(kTrainIds); });
  std::string_view ending = ".png";
  if (ids + train_ids > 0) {
    files.layout = train_ids >= ids ? LabelLayout::kCityscapesTrainIds : LabelLayout::kCityscapesIds;
    ending = train_ids >= ids ? kTrainIds : kIds;
  } else if (normal_path(folder).filename() == kMasks) {
    files.layout = LabelLayout::kVoc;
  }
  for (const std::string& name : names) {
    if (ending != ".png" && !name.ends_with(ending)) continue;
    std::string stem = name.substr(0, name.size() - ending.size());
    if (ending != ".png") stem = stem.substr(0, stem.rfind("_gt"));  // _gtFine, _gtCoarse
    const auto [first, is_new] = files.by_stem.emplace(stem, name);
    if (!is_new) files.twins.emplace_back(name, first->second);
  }
  return files;
}

LabelledImages pair_folders(const std::string& labels, const std::string& images,
                            const ProblemReport& report) {
  if (!is_folder(labels)) fail_input("{}: no such folder of label maps", labels);
  const bool beside_images = !images.empty() && normal_path(images) == normal_path(labels);
  MapFiles files = label_files(labels, beside_images);
  if (files.by_stem.empty())
    fail_input("{}: has no label maps, expected {}", labels,
               beside_images ? "PNG files called IMAGE_mask.png next to the images" : "PNG files");
  for (const auto& [name, first] : files.twins)
    report(fmt::format("{}: is a second label map of the image that {} belongs to", joined(labels, name),
                       joined(labels, first)));
  LabelledImages set{
      .images = images, .layout = files.layout, .list_folders = folders_of_lists(labels), .are_all = true};
  if (images.empty()) {  // only the maps are needed
    for (const auto& [stem, name] : files.by_stem) set.pairs.push_back({stem + ".png", joined(labels, name)});
    return set;
  }
  if (!is_folder(images)) fail_input("{}: no such folder of images", images);
  FolderListing listing = list_tree(images);
  if (beside_images)
    std::erase_if(listing.images, [](const std::string& name) { return name.ends_with(kBesideImage); });
  set.links = listing.links;
  set.notes = notes_on_listing(listing, images);
  std::set<std::string> taken;
  for (const std::string& image : listing.images) {
    std::string stem = without_ending(image);
    if (files.layout != LabelLayout::kPlain && stem.ends_with(kCityscapesImage))
      stem.resize(stem.size() - kCityscapesImage.size());
    auto found = files.by_stem.end();
    for (const std::string_view ending : kEndings)
      if (found == files.by_stem.end()) found = files.by_stem.find(stem + std::string(ending));
    if (found == files.by_stem.end()) {
      report(fmt::format("{}: has no label map, expected {}", joined(images, image),
                         joined(labels, stem + std::string(beside_images ? kBesideImage : ".png"))));
      continue;
    }
    if (!taken.insert(found->first).second) {
      report(fmt::format("{}: is the label map of two images, the second is {}",
                         joined(labels, found->second), joined(images, image)));
      continue;
    }
    set.pairs.push_back({image, joined(labels, found->second)});
  }
  for (const auto& [stem, name] : files.by_stem)
    if (!taken.contains(stem))
      report(fmt::format("{}: has no image, expected {} in {}", joined(labels, name),
                         beside_images ? name.substr(0, name.size() - kBesideImage.size()) : stem, images));
  return set;
}

// The lines of a list name images without their endings.
LabelledImages pair_list(const std::string& list, const std::string& images, const ProblemReport& report) {
  const std::string root = fs::path(list).parent_path().parent_path().parent_path().string();
  const std::string labels = joined(root, kMasks);
  LabelledImages set{.images = images, .layout = LabelLayout::kVoc, .list_folders = {labels, root}};
  const NamedFolder folder(labels);
  std::set<std::string> seen;
  for (const TextLine& line : text_lines(read_text(list, kTextFile))) {
    std::string stem = line.text;
    if (has_image_extension(stem)) stem = without_ending(stem);
    std::string name = stem + ".png";
    if (const std::string capitals = stem + ".PNG";
        !is_file(joined(labels, name)) && is_file(joined(labels, capitals)))
      name = capitals;
    const std::string path = joined(labels, name);
    if (const std::string refusal = folder.refusal(name); !refusal.empty())
      fail_input("{}: line {}: {}: {}", list, line.number, escaped(path), refusal);
    if (!seen.insert(stem).second) continue;
    if (!is_file(path)) {
      report(fmt::format("{}: line {}: no such label map: {}", list, line.number, path));
      continue;
    }
    const std::string image = images.empty() ? name : image_called(images, stem);
    if (image.empty()) {
      report(fmt::format("{}: line {}: has no image, expected {} in {}", list, line.number, stem, images));
      continue;
    }
    set.pairs.push_back({image, path});
  }
  return set;
}

// Appends the same names with a capital.
std::vector<std::string> with_capital(std::vector<std::string> names) {
  for (size_t i = 0, count = names.size(); i < count; ++i) {
    std::string other = names[i];
    if (other[0] >= 'a' && other[0] <= 'z') other[0] = static_cast<char>(other[0] - 'a' + 'A');
    if (other != names[i]) names.push_back(std::move(other));
  }
  return names;
}

// img_dir and ann_dir are mmsegmentation's names.
const std::vector<std::string>& folder_names_of_images() {
  static const std::vector<std::string> kNames =
      with_capital({"images", "imgs", "img", "img_dir", "JPEGImages", "leftImg8bit"});
  return kNames;
}

const std::vector<std::string>& folder_names_of_label_maps() {
  static const std::vector<std::string> kNames =
      with_capital({"annotations", "masks", "labels", "label_maps", "gt", "mask", "ann_dir", kMasks});
  return kNames;
}

// Finds splits as subfolders of both, or both without splits.
void find_pairs(const std::string& images, const std::string& labels, DataSplits& splits) {
  if (!is_folder(images) || !is_folder(labels)) return;
  for_each_split_name(splits, [&](std::optional<DataPaths>& split, const std::string& name) {
    const std::string own = joined(images, name), maps = joined(labels, name);
    if (split || !is_folder(own) || !is_folder(maps)) return;
    if (holds_maps(maps))
      split = DataPaths{.annotations = maps, .images = own};
    else
      splits.notes.push_back(fmt::format("{}: has no label maps (PNG files) and is left out", maps));
  });
  if (splits.is_empty()) return;
  for (const std::string& name : folders_in(labels))
    if (const std::string own = joined(labels, name); is_folder(joined(images, name)) && holds_maps(own))
      note_left_out(own, name, splits);
}

std::optional<DataPaths> plain_pair(const std::string& folder) {
  for (const std::string& images : folder_names_of_images())
    for (const std::string& labels : folder_names_of_label_maps())
      if (const std::string own = joined(folder, images), maps = joined(folder, labels);
          is_folder(own) && holds_maps(maps))
        return DataPaths{.annotations = maps, .images = own};
  return std::nullopt;
}

// Finds a folder whose images have their label maps next to them.
std::optional<DataPaths> mixed_folder(const std::string& folder) {
  for (const std::string& name : list_files(folder, std::string(kBesideImage)))
    if (!image_called(folder, name.substr(0, name.size() - kBesideImage.size())).empty())
      return DataPaths{.annotations = folder, .images = folder};
  return std::nullopt;
}

std::optional<DataPaths> pair_in(const std::string& folder) {
  const std::optional<DataPaths> pair = plain_pair(folder);
  return pair ? pair : mixed_folder(folder);
}

// Finds VOC's lists, ignoring case; its trainval is the training set if there is no train;
// CVAT's list is called "default".
void find_lists(const std::string& folder, DataSplits& splits) {
  if (!is_folder(joined(folder, kMasks))) return;
  const std::string lists = joined(folder, "ImageSets/Segmentation");
  std::string images =
      first_folder({joined(folder, "JPEGImages"), joined(folder, "images"), joined(folder, "Images")});
  if (images.empty()) return;
  auto add = [&](std::optional<DataPaths>& split, const std::string& name) {
    for (const std::string& file : list_files(lists, ".txt"))
      if (!split && lower_case(without_ending(file)) == name)
        split = DataPaths{.annotations = joined(lists, file), .images = images};
  };
  for_each_split_name(splits, add);
  add(splits.train, "trainval");
  if (splits.is_empty()) add(splits.train, "default");
  for (const std::string& file : list_files(lists, ".txt"))
    if (const std::string name = without_ending(file); lower_case(name) != "trainval")
      note_left_out(joined(lists, file), name, splits);
}

}  // namespace

bool are_label_maps(const DataPaths& paths) {
  return is_label_list(paths.annotations) || holds_maps(paths.annotations);
}

LabelledImages pair_images(const DataPaths& paths, const ProblemReport& report) {
  return is_label_list(paths.annotations) ? pair_list(paths.annotations, paths.images, report)
                                          : pair_folders(paths.annotations, paths.images, report);
}

std::string folder_of_jpeg_maps(const std::string& folder) {
  for (const std::string& images : folder_names_of_images())
    for (const std::string& labels : folder_names_of_label_maps())
      if (std::string maps = joined(folder, labels);
          is_folder(joined(folder, images)) && is_folder(maps) && !holds_maps(maps) &&
          (has_files_below(maps, ".jpg") || has_files_below(maps, ".jpeg")))
        return maps;
  return "";
}

std::vector<std::string> maps_beside_images(const std::vector<std::string>& paths) {
  std::set<std::string> stems;
  std::vector<std::string> maps;
  for (const std::string& path : paths) stems.insert(without_ending(path));
  for (const std::string& path : paths)
    if (path.ends_with(kBesideImage) && stems.contains(path.substr(0, path.size() - kBesideImage.size())))
      maps.push_back(path);
  return maps;
}

DataSplits find_label_maps(const std::string& folder) {
  DataSplits splits;
  find_lists(folder, splits);
  if (!splits.is_empty()) return splits;
  find_pairs(joined(folder, "leftImg8bit"), joined(folder, "gtFine"), splits);
  for (const std::string& images : folder_names_of_images())
    for (const std::string& labels : folder_names_of_label_maps())
      find_pairs(joined(folder, images), joined(folder, labels), splits);
  find_in_folders(folder, splits, pair_in);
  if (splits.is_empty()) splits.train = pair_in(folder);
  return splits;
}

}  // namespace saccade
