// Which classes of a data set count, and as what: data.class_map and data.classes of a configuration,
// --classes of the commands.
#pragma once

#include <string>
#include <vector>

#include "data/formats/ground_truth.h"

namespace saccade {

struct ClassChoice {
  // A class of the data, and the one that it is taken for; "": it is left out.
  struct Mapping {
    std::string name, as;
  };
  std::vector<Mapping> map = {};
  std::vector<std::string> only = {};  // by their names after the map; empty: all
  bool empties_stay = true;  // images that lose all of their boxes; else whoever leaves them out says so

  bool takes_all() const { return map.empty() && only.empty(); }
  // What a class of the data is called; "": it is left out.
  std::string name_of(const std::string& name) const;
};

// Throws InputError "DATA: ..." for a name that none of the data's classes has, with the nearest,
// and where no class is left.
void check_choice(const ClassChoice& choice, const std::vector<std::string>& names, const std::string& data);

// Leaves the boxes of the chosen classes; all images stay. A class has the id of the category which has its
// name, also where that one is taken for another, else of the first that is taken for it. What is left out
// and renamed is noted in a line each.
void choose_classes(GroundTruth& truth, const ClassChoice& choice);

// How much of what was left out or taken for another: notes of all kinds of data sets. `what`: "boxes",
// "masks", "images", or "pixels", which are not counted.
class ChoiceCounts {
 public:
  explicit ChoiceCounts(const ClassChoice& choice) : choice_(choice) {}
  void add(const std::string& name, int64_t count);
  // Nothing where all classes stay as they are.
  std::vector<std::string> lines(const char* what) const;

 private:
  struct Count {
    std::string name, as;
    int64_t count;
  };
  const ClassChoice& choice_;
  std::vector<Count> counts_;  // in the order of the data
  int64_t all_ = 0;
};

}  // namespace saccade
