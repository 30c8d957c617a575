// Where the commands of `saccade data` write lists, and how one continues with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "data/formats/ground_truth.h"
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

// "12 images in photos, 30 boxes (2 more are left out), 2 categories".
std::string counts_of_list(const GroundTruth& truth, const std::string& images, int64_t boxes_left_out = 0);

// Those of a data set's splits, as COCO's: they appear together or, where one of them has a fault,
// not at all.
class CocoLists {
 public:
  void add(const DataSource& source, const GroundTruth& truth);
  // Of all; with a line about each.
  void write();

 private:
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::vector<std::string> lines_;
};

}  // namespace saccade
