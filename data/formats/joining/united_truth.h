// Unites the lists of several data sets.
#pragma once

#include <string>
#include <vector>

#include "data/formats/ground_truth.h"

namespace saccade {

struct SetPart {
  GroundTruth truth;
  std::string name;            // of its annotations, for messages
  std::string images;          // the folder of its images
  bool has_ids = false;        // its file numbers the categories; else they are identified by their names
  bool allow_outside = false;  // as in DataPaths
};

struct UnionOptions {
  std::string images;              // the folder that contains all images
  std::vector<Category> known;     // the known classes; empty: those of the parts
  std::vector<std::string> order;  // of classes without an id in any part; empty: as they appear
};

// Unites classes with the same name. If no classes are known, each has the id from the first part with an id
// for it, unless another class has this id; classes without an id are numbered from 1, or after the others.
// With several parts, names of images begin with their folder below options.images; if any id of a part's
// images, or of its boxes, occurs in an earlier part, all of these get new ids. Records with wrong ids or an
// unknown class are reported and left out.
GroundTruth unite(std::vector<SetPart> parts, const UnionOptions& options, const ProblemReport& report);

}  // namespace saccade
