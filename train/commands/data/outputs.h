// Where the commands of `saccade data` write lists, and the advice they print on how to train with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "data/formats/ground_truth.h"
#include "train/commands/data/sources.h"

namespace saccade {

// Creates the folder of the outputs (if empty, the outputs are files with names of their own). It must not be
// the folder of a data set: the written files would be read as its lists of boxes. Throws InputError, also if
// it would replace a file that saccade did not write.
std::unique_ptr<MadeFolder> prepare_outputs(const std::vector<DataSource>& sources, const std::string& folder,
                                            const std::vector<std::string>& data);

// Counts of the first of the sources.
struct Written {
  size_t images = 0, boxes = 0;
};
// Returns why a training on it teaches nothing or does not start, or ""; is_alone: it is the only split.
std::string why_not_to_train(Written written, bool is_alone);
// `place` is the folder that was written, or the one file. --data takes it if only its own lists are found in
// it.
void tell_how_to_train(const std::string& place, const std::vector<DataSource>& sources, Written written,
                       bool allow_outside);

// "12 images in photos, 30 boxes (2 more are left out), 2 categories".
std::string counts_of_list(const GroundTruth& truth, const std::string& images, int64_t boxes_left_out = 0);

// The lists of a data set's splits in COCO's format: all of them appear together or, if one of them has a
// fault, none.
class CocoLists {
 public:
  void add(const DataSource& source, const GroundTruth& truth);
  // Writes all of them, and prints a line about each.
  void write();

 private:
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::vector<std::string> lines_;
};

}  // namespace saccade
