// The part of `saccade data` that handles label maps.
#pragma once

#include <optional>
#include <vector>

#include "data/pages/split.h"
#include "train/commands/commands.h"
#include "train/commands/data/sources.h"

namespace saccade {

// Adds the findings of a check to a reported split whose lists are read. Throws InputError if there is
// nothing to report on.
void take_findings(ReportedSplit& split, DatasetReport report);
// Collects for a report: the lists, their faults, and the pixels of each class. Throws InputError if there is
// nothing to report on.
std::vector<ReportedSplit> label_map_splits(const DataSplits& found);

// Converts label maps of any layout, or ones drawn from masks if arguments.to asks for them, into a folder of
// images and one of plain PNG files with a classes.txt. Returns the exit status; nothing if the data set
// holds something else, or another format is asked for.
std::optional<int> convert_label_maps(const DataConvertArguments& arguments);

}  // namespace saccade
