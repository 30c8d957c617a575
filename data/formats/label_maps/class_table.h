// Determines the classes of a data set's label maps: from a configuration, a list, or the maps themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/label_maps/label_values.h"

namespace saccade {

// The ids of the categories are the values in the maps, or, if these are colours, indices of the list.
struct ClassTable {
  std::vector<Category> categories;
  std::shared_ptr<const LabelValues> values;
  std::vector<std::string> notes = {};
};

enum class LabelLayout { kPlain, kVoc, kCityscapesIds, kCityscapesTrainIds };

// Uses the options; else a list in one of the folders (labelmap.txt, objectInfo150.txt, classes.txt,
// _classes.csv); else the classes that belong to the layout; else the values in these files.
// known: the classes of a model, whose ids are values too; empty if there are none.
// Throws InputError naming the list if it is invalid or lacks known classes.
ClassTable class_table(const LabelMapOptions& options, const std::vector<std::string>& folders,
                       LabelLayout layout, const std::vector<std::string>& files,
                       const std::vector<Category>& known);

}  // namespace saccade
