// The one interface of all classification data sets.
#pragma once

#include <string>
#include <vector>

#include "data/formats/image_source.h"

namespace saccade {

// make_sample sets the label of each sample, 0 .. number of classes - 1.
class ClassificationDataset : public ImageSource {
 public:
  virtual const std::vector<std::string>& class_names() const = 0;
  // What the user should know about the set, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace saccade
