// Selects the data sets that a command of `saccade data` works on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "train/config/config.h"

namespace saccade {

// A data set, and the file to write for it.
struct DataSource {
  DataPaths paths;
  std::string output = {};
  std::string name = {};  // of the split
};

// The values of the flags: --annotations and --images, or folders.
struct SourceFlags {
  std::string annotations, images;
  std::vector<std::string> data;
  ClassChoice choice = {};
  bool allow_outside = false;
  LabelMapOptions label_maps = {};
};

// Applies the edits of --set about classes to the configuration. Throws InputError for edits of anything
// else.
void set_classes(Config& config, const std::vector<std::string>& set);
LabelMapOptions set_label_maps(const std::vector<std::string>& set);
// Returns the choice that --classes and --set make.
ClassChoice chosen_classes(const std::vector<std::string>& classes, const std::vector<std::string>& set);

// "a + b": the folders, or the annotations.
std::string name_of(const SourceFlags& flags);
// Returns the splits of the folders, merged, each with a file of its name in the folder `output`. Prints what
// it ignored.
std::vector<DataSource> splits_of(const std::vector<std::string>& folders, const std::string& format,
                                  const std::string& output);
// Returns one data set, whose output is `output`, or the splits of the folders. Throws InputError for flags
// that do not go together.
std::vector<DataSource> sources_of(const SourceFlags& flags, const std::string& output = "");
// Applies the flags to the splits; prints their notes.
DataSplits with_flags(DataSplits found, const SourceFlags& flags);
// If the folders hold no lists of boxes, but subfolders that may be classes: returns these as splits, merged.
std::optional<DataSplits> class_folders(const SourceFlags& flags);
// The same for label maps, which --annotations and --images may also name.
std::optional<DataSplits> label_map_sets(const SourceFlags& flags);

}  // namespace saccade
