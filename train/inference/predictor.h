// What `saccade predict` makes of images: each task has its own.
#pragma once

#include <string>
#include <vector>

#include "data/formats/ground_truth.h"
#include "train/inference/picture_files.h"

namespace saccade {

// The predictions of one run: a batch of images at a time, then their list.
class Predictor {
 public:
  virtual ~Predictor() = default;
  // Pictures go into the workspace, and their names there are returned.
  virtual std::vector<std::string> predict(std::vector<LoadedInput> images, const Workspace& workspace,
                                           PictureNames& names) = 0;
  // The file of the list, those of its elements that nobody has taken yet, and what is printed at the end.
  virtual std::string list_name() const = 0;
  virtual std::string take_list() = 0;
  virtual std::string summary(size_t images) const = 0;
  // Whether each image has a picture.
  virtual bool has_pictures() const = 0;
  // What was found in the images so far, of those that can be asked for labels (--to); null: of none.
  virtual const GroundTruth* labels() const { return nullptr; }
};

}  // namespace saccade
