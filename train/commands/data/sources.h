// Which data sets a command of `saccade data` is about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "train/config/config.h"

namespace saccade {

// A set, and the file for what is written of it.
struct DataSource {
  DataPaths paths;
  std::string output = {};
  std::string name = {};  // of the split
};

// What the flags say: --annotations and --images, or folders.
struct SourceFlags {
  std::string annotations, images;
  std::vector<std::string> data;
  ClassChoice choice = {};
  bool allow_outside = false;
  LabelMapOptions label_maps = {};
};

// What --set says of classes, applied to the configuration. Throws InputError for what is about something
// else.
void set_classes(Config& config, const std::vector<std::string>& set);
LabelMapOptions set_label_maps(const std::vector<std::string>& set);
// That of --classes and --set.
ClassChoice chosen_classes(const std::vector<std::string>& classes, const std::vector<std::string>& set);

// "a + b": the folders, or the annotations.
std::string name_of(const SourceFlags& flags);
// The splits of the folders, united, each with a file of its name in the folder `output`.
// What was passed over is printed.
std::vector<DataSource> splits_of(const std::vector<std::string>& folders, const std::string& format,
                                  const std::string& output);
// One set, whose output is `output`, or the splits of the folders. Throws InputError for flags that do not go
// together.
std::vector<DataSource> sources_of(const SourceFlags& flags, const std::string& output = "");
// The splits with what the flags say of them; their notes are printed.
DataSplits with_flags(DataSplits found, const SourceFlags& flags);
// Of folders in which no lists of boxes are found, but folders that may be classes: these as splits, united.
std::optional<DataSplits> class_folders(const SourceFlags& flags);
// The same of label maps; also what --annotations and --images name.
std::optional<DataSplits> label_map_sets(const SourceFlags& flags);

}  // namespace saccade
