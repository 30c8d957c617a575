// Keeps the outputs of a command from replacing labels that it reads.
#pragma once

#include <initializer_list>

#include "core/files/output_file.h"
#include "data/formats/data_format.h"

namespace saccade {

// check_outputs (core/files/output_file.h) with the labels of a set, and of the splits next to it, as inputs:
// the annotations, or the files that they stand for, such as LabelMe's in a folder.
void check_outputs_of_set(std::initializer_list<NamedPath> outputs, const DataPaths& paths);

}  // namespace saccade
