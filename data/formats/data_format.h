// The ways in which data sets lie on disk. A format is one file: the reader and one line that registers it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/runtime/registry.h"
#include "data/formats/classification_dataset.h"
#include "data/formats/detection_dataset.h"
#include "data/formats/findings.h"

namespace saccade {

// Where a data set lies, as data.train and data.val of a configuration say.
struct DataPaths {
  std::string annotations;  // of a detection set
  std::string images;  // the folder of the images; "": the images are not wanted, only what is known of them
  std::string format = {};  // a registered name; "": the one that recognises the paths
  bool allow_outside =
      false;  // file names may be absolute, hold ".." or be links that lead out of the folder
  bool skip_bad_images = false;  // images that cannot be read are told, not refused
  bool look_at_images = true;    // whether opening a set looks at its images at all
};

struct DetectionFormat {
  std::string name;
  std::string summary;  // one line
  // Whether the paths look like this format, whether or not they exist; nullptr: it has to be asked for by name.
  bool (*recognises)(const DataPaths& paths);
  // Throws InputError naming the file and the place in it.
  std::shared_ptr<const DetectionDataset> (*open)(const DataPaths& paths, LabelScheme labels);
  std::string file = {};  // where it is registered
  // Every problem, not only the first; nullptr: the first one that opening the set finds.
  DatasetReport (*check)(const DataPaths& paths) = nullptr;
  // The ground truth in the order of the file, read without the images; nullptr: that of open().
  GroundTruth (*read_ground_truth)(const std::string& annotations) = nullptr;
};

struct ClassificationFormat {
  std::string name;
  std::string summary;  // one line
  bool (*recognises)(const DataPaths& paths);
  // With `classes`, these are the classes and labels are places in that list. Throws InputError naming the file.
  std::shared_ptr<const ClassificationDataset> (*open)(const DataPaths& paths,
                                                       const std::vector<std::string>& classes);
  std::string file = {};
};

inline Registry<DetectionFormat>& detection_formats() {
  static Registry<DetectionFormat> registry("data format");
  return registry;
}
inline Registry<ClassificationFormat>& classification_formats() {
  static Registry<ClassificationFormat> registry("data format");
  return registry;
}

// By paths.format, else by what the paths look like: COCO, and for classification image folders, where no format
// recognises them. Throw InputError for an unknown format and where several recognise the paths.
// The images, where they are wanted, are looked at (data/formats/image_check.h); what there is to say about them is added to notes.
std::shared_ptr<const DetectionDataset> open_detection_dataset(const DataPaths& paths,
                                                               LabelScheme labels = LabelScheme::kContiguous,
                                                               std::vector<std::string>* notes = nullptr);
std::shared_ptr<const ClassificationDataset> open_classification_dataset(
    const DataPaths& paths, const std::vector<std::string>& classes = {},
    std::vector<std::string>* notes = nullptr);

// Of a detection set; the members of its format tell what they do.
DatasetReport check_detection_dataset(const DataPaths& paths);
GroundTruth read_ground_truth(const std::string& annotations);

}  // namespace saccade
