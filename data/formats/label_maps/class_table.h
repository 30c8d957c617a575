// Which classes the label maps of a data set have: from a configuration, a list, or the maps themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/label_maps/label_values.h"

namespace saccade {

// The ids of the categories are the values in the maps, or where these are colours places in the list.
struct ClassTable {
  std::vector<Category> categories;
  std::shared_ptr<const LabelValues> values;
  std::vector<std::string> notes = {};
};

enum class LabelLayout { kPlain, kVoc, kCityscapesIds, kCityscapesTrainIds };

// What options say; else a list in one of the folders (labelmap.txt, objectInfo150.txt, classes.txt,
// _classes.csv); else the classes that go with the layout; else, by the values that are in these files.
// known: the classes of a model, whose ids are values too; empty: none.
// Throws InputError naming the list for what is no list, and for known classes that it lacks.
ClassTable class_table(const LabelMapOptions& options, const std::vector<std::string>& folders,
                       LabelLayout layout, const std::vector<std::string>& files,
                       const std::vector<Category>& known);

}  // namespace saccade
