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

// Where a run continues.
struct ResumePoint {
  std::unique_ptr<SafetensorsReader> file;  // all of it was compared with its checksums
  CheckpointInfo info;
  std::vector<std::string> skipped;  // newer files that cannot be used, and why: a line each
};

// Holds FOLDER/.lock while it lives.
class RunLock {
 public:
  // Throws InputError naming the process that holds the folder.
  explicit RunLock(const std::string& folder);

 private:
  FileLock lock_;
};

class RunFolder {
 public:
  // Creates the folder with its checkpoints/, and holds it for this process (RunLock). Throws InputError when
  // that is impossible, or where one of its files is a symbolic link: a run writes nothing outside its
  // folder. Of several processes that train together one is the writer; to the others the folder is there to
  // be read, and what writes does nothing.
  explicit RunFolder(const std::string& path, bool writes = true);
  // Removes folders in which nothing was written.
  ~RunFolder();
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }
  std::string last() const { return checkpoint("last.safetensors"); }
  std::string previous() const { return checkpoint("previous.safetensors"); }  // what was `last` before
  std::string best() const { return checkpoint("best.safetensors"); }
  std::string config() const { return path_ + "/config.textproto"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }

  // Throws InputError when there is anything of a run that a new one would write over.
  void refuse_run() const;
  // The same of a configuration that stands there without a run.
  void refuse_others_files() const;
  // The newest whole checkpoint; nothing when the folder holds no run. Throws InputError, with the fault of
  // each file, when it does but there is no whole one.
  std::optional<ResumePoint> resume_point();
  // Removes what killed processes left half-written.
  void remove_leftovers() const;

  void write_config(const std::string& text) const;
  // Everything that a resumed run needs; the earlier `last` becomes `previous`, unless resume_point
  // skipped it. Throws Error when a tensor of the model is not finite; the files then stay what they were.
  void save_last(const Module& model, const CheckpointInfo& info, const Optimizer& optimizer, const Ema* ema);
  // The model's tensors as they are now. An evaluation that only a stop caused (not `scheduled`) keeps the
  // earlier file aside, so that a resumed run ends like one that never stopped.
  void save_best(const Module& model, const CheckpointInfo& info, bool scheduled) const;
  // At the start of a resumed run: takes back what was kept aside.
  void restore_best() const;

 private:
  bool holds_run() const;  // a checkpoint or metrics
  void refuse_links() const;
  // Throws InputError when a file of the run could not be written.
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
