// What the predictions of detectors and classifiers share: the images named on the command line and the folder of
// results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/images/image.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

struct PredictInput {
  std::string path;
  std::string name;     // in the list of results
  std::string picture;  // file name of the picture
};

// The images that the arguments name, folders expanded in alphabetical order, with distinct names. Throws
// InputError for a missing or broken image and a folder without images.
std::vector<PredictInput> collect_inputs(const std::vector<std::string>& arguments);

// A batch of one image, resized as for evaluation.
Batch one_image_batch(const Image& original, const Config& config);

// A temporary folder beside the results that holds them until all are there; leftovers are removed at the end.
class Workspace {
 public:
  explicit Workspace(const std::filesystem::path& output);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void publish(const std::string& name) const { std::filesystem::rename(path_ / name, output_ / name); }

 private:
  std::filesystem::path output_, path_;
  bool existed_;
};

}  // namespace saccade
