#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/formats/coco/coco.h"
#include "data/formats/coco/segmentation_json.h"
#include "data/formats/data_format.h"
#include "data/formats/labelme/labelme_json.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Replaces names with the separators of Windows, or with accents in another encoding,
// if no file has the unchanged name.
void find_files_of_others(GroundTruth& truth, const std::string& folder) {
  int64_t of_windows = 0, spelled = 0;
  for (ImageInfo& image : truth.images) {
    std::string name = name_in(folder, image.file_name);
    if (name == image.file_name) continue;
    std::string slashes = image.file_name;
    std::ranges::replace(slashes, '\\', '/');
    of_windows += slashes != image.file_name;
    spelled += slashes != name;
    image.file_name = std::move(name);
  }
  if (spelled > 0)
    truth.notes.push_back(fmt::format(
        "{} listed in another Unicode form (NFC or NFD) than in the folder, whose spelling is used",
        count_of(spelled, "image name is", "image names are")));
  if (of_windows > 0)
    truth.notes.push_back(fmt::format("{} named with \"\\\", as on Windows; it is read as \"/\"",
                                      count_of(of_windows, "image is", "images are")));
}

GroundTruth read_coco_format(const DataPaths& paths, const ProblemReport& report) {
  GroundTruth truth = read_coco(
      paths, [&](const std::string& problem) { report(fmt::format("{}: {}", paths.annotations, problem)); });
  if (!paths.images.empty()) find_files_of_others(truth, paths.images);
  return truth;
}

constexpr const char* kImageFolderKey = "\"image_folder\"";

// Returns the text of the first such key in the first bytes of a list; "" if there is none. Errors are
// ignored: the code that reads the list reports them.
std::string text_of_key(const std::string& file, std::string_view key, uint64_t bytes) {
  if (!is_file(file)) return "";
  const std::string head = head_of(file, kJsonFile, bytes);
  size_t at = head.find(key);
  if (at == std::string::npos) return "";
  at = head.find_first_not_of(" \t\r\n:", at + key.size());
  if (at == std::string::npos || head[at] != '"') return "";
  std::string name;
  for (++at; at < head.size() && head[at] != '"'; ++at) {
    if (head[at] == '\\' && ++at == head.size()) break;
    name += head[at];
  }
  return name;
}

// Returns the first image that a list names, to find the folder that names are relative to; "" if unknown.
std::string first_coco_image(const std::string& file) {
  return text_of_key(file, "\"file_name\"", uint64_t{1} << 20);
}

// Returns the folder of images named by a list that `saccade data` has written, whether it exists or not; ""
// if it names none.
std::string written_folder(const std::string& file) {
  constexpr uint64_t kInfo = 16384;  // which is at the start
  if (head_of(file, kJsonFile, kWrittenList.size()) != kWrittenList) return "";
  const std::string name = text_of_key(file, kImageFolderKey, kInfo);
  return name.empty() ? "" : normal_path(joined(parent_of(file), name)).string();
}
std::string named_folder(const std::string& file) {
  std::string folder = written_folder(file);
  return is_folder(folder) ? folder : "";
}
// Adds a note on a list that was moved from where it was written.
void note_missing_folder(const DataPaths& paths, DataSplits& splits) {
  if (const std::string folder = written_folder(paths.annotations); !folder.empty() && !is_folder(folder))
    splits.notes.push_back(fmt::format("{}: its folder of images {} does not exist; {} is used instead",
                                       paths.annotations, folder, paths.images));
}

// The images of annotations/instances_train2017.json are in train2017, in images/train2017, or all in images:
// returns the first of these that contains the first image of the list.
std::string image_folder(const std::string& file, const std::string& folder, const std::string& stem,
                         const std::string& split) {
  if (std::string named = named_folder(file); !named.empty()) return named;
  return folder_of({joined(folder, stem), joined(folder, "images/" + stem), joined(folder, "images/" + split),
                    joined(folder, split + "/images"), joined(folder, split), joined(folder, "images"),
                    joined(folder, "data"), folder},
                   first_coco_image(file));
}

// LVIS names images by URLs, whose folders (train2017) are next to the annotations or in `images`; the images
// of its val are in several. Otherwise they are in train2017 or val2017.
std::string lvis_images(const std::string& file, const std::string& folder, const std::string& split) {
  std::vector<std::string> roots{folder, joined(folder, "images"), joined(folder, "data")};
  if (const std::string path = path_of_url(text_of_key(file, "\"coco_url\"", uint64_t{1} << 20));
      !path.empty())
    for (const std::string& root : roots)
      if (is_file(joined(root, path))) return root;
  std::vector<std::string> folders;
  for (const std::string& root : roots) folders.push_back(joined(root, split + "2017"));
  folders.insert(folders.end(), roots.begin(), roots.end());
  return folder_of(folders, first_coco_image(file));
}

// Of several lists of a split, returns the one that has a folder of images with its name;
// among others the choice is ambiguous.
std::string list_of_instances(const std::string& folder, const std::string& name) {
  std::vector<std::string> lists;
  for (const std::string& file : list_files(joined(folder, "annotations"), ".json"))
    if (file.starts_with("instances_" + name)) lists.push_back(file);
  auto has_images = [&](const std::string& file) {
    const std::string stem = file.substr(10, file.size() - 15);
    return is_folder(joined(folder, stem)) || is_folder(joined(folder, "images/" + stem));
  };
  if (lists.size() > 1 && std::any_of(lists.begin(), lists.end(), has_images))
    std::erase_if(lists, [&](const std::string& file) { return !has_images(file); });
  if (lists.size() > 1)
    fail_input(
        "{}/annotations: {} and {} may both list the {} images, expected one; give the paths in data.train and data.val",
        folder, lists[0], lists[1], name);
  return lists.empty() ? "" : lists[0];
}

// Layouts: Roboflow and `saccade data shapes`: a file in each split's folder; COCO: a folder of annotations;
// FiftyOne: labels.json next to a folder "data"; Label Studio: result.json next to images; LVIS:
// lvis_v1_train.json next to train2017; a single file.
DataSplits find_coco(const std::string& folder) {
  DataSplits splits;
  auto add = [&](std::optional<DataPaths>& split, const std::string& file, auto images) {
    if (!is_file(file)) return;
    if (split)
      splits.notes.push_back(fmt::format("{} is ignored because {} exists", file, split->annotations));
    else
      note_missing_folder(split.emplace(DataPaths{.annotations = file, .images = images()}), splits);
  };
  for_each_split_name(splits, [&](std::optional<DataPaths>& to, const std::string& name) {
    const std::string own = joined(folder, name), annotations = joined(folder, "annotations");
    auto find_images = [&](const std::string& file, const std::string& stem) {
      add(to, file, [&] { return image_folder(file, folder, stem, name); });
    };
    add(to, joined(own, "_annotations.coco.json"), [&]() -> const std::string& { return own; });
    for (const char* file : {"annotations.json", "labels.json", "result.json"}) {
      const std::string list = joined(own, file);
      add(to, list, [&] {
        if (std::string named = named_folder(list); !named.empty()) return named;
        return folder_of({joined(own, "images"), joined(own, "data"), own}, first_coco_image(list));
      });
    }
    find_images(joined(annotations, name + ".json"), name);
    if (!to)
      if (const std::string file = list_of_instances(folder, name); !file.empty())
        find_images(joined(annotations, file), file.substr(10, file.size() - 15));
    find_images(joined(folder, name + ".json"), name);
    for (const std::string& list : {annotations, folder})
      for (const char* version : {"lvis_v1_", "lvis_v0.5_"})
        if (const std::string file = joined(list, version + name + ".json"); !to)
          add(to, file, [&] { return lvis_images(file, folder, name); });
  });
  if (!splits.is_empty()) return splits;
  for (const char* name : {"annotations.json", "_annotations.coco.json", "annotations/instances_default.json",
                           "result.json", "labels.json"}) {
    const std::string file = joined(folder, name);
    // Files with these names may be something else.
    const bool is_any = std::string(name) == "result.json" || std::string(name) == "labels.json";
    if (!is_any || !first_coco_image(file).empty())
      add(splits.train, file, [&] { return image_folder(file, folder, "default", "default"); });
  }
  return splits;
}

DataSplits find_coco_file(const std::string& file) {
  DataSplits splits;
  const std::string folder = parent_of(file);
  if (!file.ends_with(".json") || is_labelme_json(file)) return splits;
  const std::string stem = fs::path(file).stem().string();
  if (stem.starts_with("lvis_")) {
    const std::string root = fs::path(folder).filename() == "annotations" ? parent_of(folder) : folder;
    splits.train = DataPaths{.annotations = file,
                             .images = lvis_images(file, root, stem.ends_with("_val") ? "val" : "train")};
  } else {
    splits.train = DataPaths{.annotations = file, .images = image_folder(file, folder, stem, "train")};
    note_missing_folder(*splits.train, splits);
  }
  return splits;
}

// Judges by its first bytes, but excludes the lists of other tasks in COCO's own folder.
bool holds_boxes(const std::string& file) {
  constexpr uint64_t kBytes = 65536;
  const std::string name = fs::path(file).filename().string();
  for (const char* other : {"captions_", "person_keypoints_", "image_info_", "stuff_", "panoptic_"})
    if (name.starts_with(other)) return false;
  const std::string head = head_of(file, kJsonFile, kBytes);
  const auto has = [&](const char* key) { return head.find(key) != std::string::npos; };
  const bool is_coco = has("\"images\"") || has("\"annotations\"") || has("\"categories\"");
  return trimmed(without_mark(head)).starts_with('{') && is_coco && (has("\"file_name\"") || has("\"bbox\""));
}

[[maybe_unused]] const bool coco_registered = data_formats().add(
    {.name = "coco",
     .summary = "COCO instances: one JSON file",
     .recognises = nullptr,
     .read = read_coco_format,
     .layout = "annotations/*.json, _annotations.coco.json, or labels.json or result.json next to the images",
     .find = find_coco,
     .find_in_file = find_coco_file,
     .label_endings = {".json"},
     .holds_labels = holds_boxes,
     .has_category_ids = true,
     .provides = {.boxes = true, .masks = true}});

}  // namespace

std::string coco_json(const GroundTruth& truth, const std::string& description,
                      const std::string& image_folder) {
  std::string out = fmt::format(
      "{{\"info\":{{\"description\":{}{}}},\n\"images\":[", json_quote(description),
      image_folder.empty() ? "" : fmt::format(",{}:{}", kImageFolderKey, json_quote(image_folder)));
  const char* separator = "\n";
  for (const ImageInfo& i : truth.images) {
    out += fmt::format("{}{{\"id\":{},\"file_name\":{},\"width\":{},\"height\":{}}}", separator, i.id,
                       json_quote(i.file_name), i.width, i.height);
    separator = ",\n";
  }
  out += "],\n\"annotations\":[";
  separator = "\n";
  for (const Annotation& a : truth.annotations) {
    SACCADE_CHECK(std::isfinite(a.bbox[0] + a.bbox[1] + a.bbox[2] + a.bbox[3] + a.area),
                  "[coco_json] annotation {} is not finite", a.id);
    out += fmt::format(
        "{}{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"area\":{},\"iscrowd\":{}",
        separator, a.id, a.image_id, a.category_id, a.bbox[0], a.bbox[1], a.bbox[2], a.bbox[3], a.area,
        a.iscrowd ? 1 : 0);
    if (a.score) out += fmt::format(",\"score\":{}", *a.score);
    if (a.segmentation) out += ",\"segmentation\":" + segmentation_json(*a.segmentation);
    out += '}';
    separator = ",\n";
  }
  out += "],\n\"categories\":[";
  separator = "\n";
  for (const Category& c : truth.categories) {
    out += fmt::format("{}{{\"id\":{},\"name\":{}}}", separator, c.id, json_quote(c.name));
    separator = ",\n";
  }
  return out + "]}\n";
}

}  // namespace saccade
