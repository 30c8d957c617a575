// Runs as `saccade report` reads them, and several of them side by side.
#pragma once

#include <string>

#include "data/pages/html.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/inference/picture_files.h"

namespace saccade {

// Throws InputError if the folder is not that of a run.
void check_run_folder(const std::string& run);
// Returns the resolved configuration. Throws InputError if it is damaged.
Config config_of_run(const std::string& run);
// Returns the metric by which the run chooses its best weights.
std::string main_metric_of(const Config& config);

// Returns "--detections, --classes": those of the given flags, other than --checkpoint, that say what is
// evaluated and how; empty if there are none.
std::string evaluation_flags(const ReportArguments& arguments);

// Checks a page's file name before the long work. Throws InputError if it would replace something else.
NamedFile page_file(const std::string& path);
// Writes the page and prints its name and size, and whether it replaces a file.
void write_page(const NamedFile& file, const std::string& path, const Page& page);

// Writes the page that compares arguments.run and arguments.others.
int compare_runs(const ReportArguments& arguments);

}  // namespace saccade
