// Runs as `saccade report` takes them, and several of them beside each other.
#pragma once

#include <span>
#include <string>

#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/report/run_csv.h"

namespace saccade {

// Throws InputError where the folder is not that of a run.
void check_run_folder(const std::string& run);
// Resolved. Throws InputError for a damaged one.
Config config_of_run(const std::string& run);
// By which the run chooses its best weights.
std::string main_figure_of(const Config& config);

// "--detections, --classes": those of the flags that say what is evaluated, and how,
// but for --checkpoint; "": none is there.
std::string evaluation_flags(const ReportArguments& arguments);

// A file of what runs have logged; "": none.
class RunsCsv {
 public:
  // Throws InputError where it would replace a file that is not named *.csv.
  explicit RunsCsv(std::string path);
  void write(std::span<const NamedRun> runs) const;

 private:
  std::string path_;
  bool replaces_ = false;
};

// The page of arguments.run and arguments.others.
int compare_runs(const ReportArguments& arguments);

}  // namespace saccade
