// Runs as `saccade report` takes them, and several of them side by side.
#pragma once

#include <string>

#include "data/pages/html.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/inference/picture_files.h"

namespace saccade {

// Throws InputError where the folder is not that of a run.
void check_run_folder(const std::string& run);
// Resolved. Throws InputError for a damaged one.
Config config_of_run(const std::string& run);
// By which the run chooses its best weights.
std::string main_metric_of(const Config& config);

// "--detections, --classes": those of the flags that say what is evaluated, and how,
// but for --checkpoint; "": none is there.
std::string evaluation_flags(const ReportArguments& arguments);

// A page's file, before the long work. Throws InputError where it would replace something else.
NamedFile page_file(const std::string& path);
// Says so, and what it replaces.
void write_page(const NamedFile& file, const std::string& path, const Page& page);

// The page of arguments.run and arguments.others.
int compare_runs(const ReportArguments& arguments);

}  // namespace saccade
