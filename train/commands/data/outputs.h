// Where the commands of `saccade data` write lists, and how one goes on with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/temporary.h"
#include "train/commands/data/sources.h"

namespace saccade {

// The folder of the outputs ("": they are files with names of their own), which must not be that of a data
// set: what is written there would be one of its lists of boxes. Throws InputError, also where a file would
// be replaced that is not written by saccade.
std::unique_ptr<MadeFolder> prepare_outputs(const std::vector<DataSource>& sources, const std::string& folder,
                                            const std::vector<std::string>& data);

// Of the first of the sources.
struct Written {
  size_t images = 0, boxes = 0;
};
// place: the folder that was written, or the one file. --data takes it where its lists alone are found in it.
void tell_how_to_train(const std::string& place, const std::vector<DataSource>& sources, Written written,
                       bool allow_outside);

}  // namespace saccade
