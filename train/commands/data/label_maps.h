// What `saccade data` does with label maps.
#pragma once

#include <optional>
#include <vector>

#include "data/pages/split.h"
#include "train/commands/commands.h"
#include "train/commands/data/sources.h"

namespace saccade {

// What a check found of a reported split, whose lists are read. Throws InputError where there is nothing to
// report on.
void take_findings(ReportedSplit& split, DatasetReport report);
// For a report: the lists, their faults, and the pixels of each class.
// Throws InputError where there is nothing to report on.
std::vector<ReportedSplit> label_map_splits(const DataSplits& found);

// Label maps of any layout, and those that are drawn of masks where arguments.to asks for them, as a folder
// of images and one of plain PNG files with a classes.txt. The exit status; nothing where the data set is
// another, or another format is asked for.
std::optional<int> convert_label_maps(const DataConvertArguments& arguments);

}  // namespace saccade
