// Several data sets as one: their lists.
#pragma once

#include <string>
#include <vector>

#include "data/formats/ground_truth.h"

namespace saccade {

struct SetPart {
  GroundTruth truth;
  std::string name;            // of its annotations, for messages
  std::string images;          // the folder of its images
  bool has_ids = false;        // its file numbers the categories; else they are known by their names
  bool allow_outside = false;  // as DataPaths
};

struct UnionOptions {
  std::string images;              // the folder that the images of all are in
  std::vector<Category> known;     // the classes there are; empty: those of the parts
  std::vector<std::string> order;  // of classes that no part has an id for; empty: as they come
};

// Classes of one name are one class. Where none are known, each has the id that the first part with an id for
// it gives it, but for one that another class has, and classes without an id are numbered from 1, or behind
// the others. Of several parts, names of images begin with their folder below options.images; images and
// boxes whose ids a part before has get new ones. Records whose ids are wrong, or whose class is not known,
// are reported and left out.
GroundTruth unite(std::vector<SetPart> parts, const UnionOptions& options, const ProblemReport& report);

}  // namespace saccade
