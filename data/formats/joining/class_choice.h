// The choice of the classes of a data set that count, and their mapping: data.class_map and data.classes of a
// configuration, --classes of the commands.
#pragma once

#include <string>
#include <vector>

#include "data/formats/ground_truth.h"

namespace saccade {

struct ClassChoice {
  // A class of the data and the class that it is mapped to; "" if it is left out.
  struct Mapping {
    std::string name, as;
  };
  std::vector<Mapping> map = {};
  std::vector<std::string> only = {};  // names after the map; empty for all
  bool empties_stay = true;  // images that lose all boxes are kept; else the code that drops them reports it

  bool takes_all() const { return map.empty() && only.empty(); }
  // Returns the name of a class of the data after the map; "" if it is left out.
  std::string name_of(const std::string& name) const;
};

// Throws InputError "DATA: ..." for a name that no class of the data has, suggesting the nearest,
// and if no class is left.
void check_choice(const ClassChoice& choice, const std::vector<std::string>& names, const std::string& data);

// Keeps the boxes of the chosen classes; all images stay. A class gets the id of the category with its name,
// even if that one is mapped to another, else of the first one mapped to it. What is left out and renamed is
// noted, one line each.
void choose_classes(GroundTruth& truth, const ClassChoice& choice);

// Counts what was left out or mapped to another class, for the notes of all kinds of data sets. `what`:
// "boxes", "masks", "images", or "pixels", which are not counted.
class ChoiceCounts {
 public:
  explicit ChoiceCounts(const ClassChoice& choice) : choice_(choice) {}
  void add(const std::string& name, int64_t count);
  // Empty if all classes stay unchanged.
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
