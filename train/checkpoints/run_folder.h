// The files of a run: config.textproto, metrics.jsonl, event files and
// checkpoints/{last,previous,best}.safetensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file_lock.h"
#include "core/files/temporary.h"
#include "train/checkpoints/checkpoint.h"

namespace saccade {

// The checkpoint from which a run continues.
struct ResumePoint {
  std::unique_ptr<SafetensorsReader> file;  // all of it has been verified against its checksums
  CheckpointInfo info;
  std::vector<std::string> skipped;  // newer files that cannot be used, and why: one line each
};

// Holds the lock file FOLDER/.lock during its lifetime.
class RunLock {
 public:
  // Throws InputError naming the process that already holds the folder.
  explicit RunLock(const std::string& folder);

 private:
  FileLock lock_;
};

class RunFolder {
 public:
  // Creates the folder with its checkpoints/, and locks it for this process (RunLock). Throws InputError if
  // that is impossible, or if one of its files is a symbolic link: a run writes nothing outside its folder.
  // Of several processes that train together, only one writes; for the others the folder is read-only, and
  // the functions that write do nothing.
  explicit RunFolder(const std::string& path, bool writes = true);
  // Removes the folders if nothing was written to them.
  ~RunFolder();
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }
  std::string last() const { return checkpoint("last.safetensors"); }
  std::string previous() const { return checkpoint("previous.safetensors"); }  // the previous `last`
  std::string best() const { return checkpoint("best.safetensors"); }
  std::string config() const { return path_ + "/config.textproto"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }

  // Throws InputError if the folder holds a run that a new one would overwrite.
  void refuse_run() const;
  // Throws InputError if the folder holds a configuration without a run.
  void refuse_others_files() const;
  // Returns the newest whole checkpoint; nothing if the folder holds no run. Throws InputError, with the
  // fault of each file, if it holds a run but no whole checkpoint.
  std::optional<ResumePoint> resume_point();
  // Removes the half-written files of killed processes.
  void remove_leftovers() const;

  void write_config(const std::string& text) const;
  // Saves everything that a resumed run needs; the earlier `last` becomes `previous`, unless resume_point
  // skipped it. Throws Error if a tensor of the model is not finite; the files then stay unchanged.
  void save_last(const Module& model, const CheckpointInfo& info, const Optimizer& optimizer, const Ema* ema);
  // Saves the model's current tensors. If the evaluation happened only because the run was stopped (not
  // `scheduled`), the earlier file is kept aside, so that a resumed run ends like one that never stopped.
  void save_best(const Module& model, const CheckpointInfo& info, bool scheduled) const;
  // Puts the file that was kept aside back, at the start of a resumed run.
  void restore_best() const;

 private:
  bool holds_run() const;  // whether there is a checkpoint or metrics
  void refuse_links() const;
  // Throws InputError if a file of the run could not be written.
  void check_outputs() const;
  std::string checkpoint(const char* name) const { return path_ + "/checkpoints/" + name; }
  std::string kept_aside() const;
  void keep_previous() const;

  std::string path_;
  bool writes_;
  bool last_is_whole_ = true;  // else `previous`, from which the run continues, is the only whole checkpoint
  std::optional<MadeFolder> folder_;
  std::optional<RunLock> lock_;
};

}  // namespace saccade
