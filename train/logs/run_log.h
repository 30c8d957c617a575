// The files that a training run writes: metrics.jsonl and a TensorBoard event file in the run folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/logs/tensorboard.h"

namespace saccade {

class RunLog {
 public:
  // Creates the folder. A new run (resume_step < 0) starts an empty metrics.jsonl. A resumed one first
  // removes the lines after its checkpoint's step, those of evaluations that only an early stop caused, and
  // lines that are not ours (a killed process may have written half a line), so that no step appears twice.
  // Event files are treated in the same way.
  RunLog(const std::string& folder, int64_t resume_step);
  ~RunLog();
  RunLog& operator=(RunLog&&) = delete;

  // Damage that was found at the start, one line each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Whether an evaluation at resume_step, made only because of an early stop, was removed.
  bool dropped_evaluation() const { return dropped_evaluation_; }

  // Appends one line {"type": type, "step": step, "NAME": number, ...}, in a single write. Numbers that JSON
  // lacks (NaN, infinities) become null. TensorBoard shows them as "type/NAME". The lines of a resumed run
  // end with "start_step": resume_step. `early_stop` marks an evaluation that a run without a stop would not
  // have made.
  void record(const std::string& type, int64_t step, const Metrics& values, bool early_stop = false);
  // For TensorBoard only, together with an evaluation's line: tags begin with "eval/".
  void pictures(int64_t step, const std::vector<EventPicture>& pictures) {
    events_->pictures(step, pictures);
  }
  // Returns when all lines are on the disk; called before a checkpoint that relies on them.
  void sync();

 private:
  void resume(int64_t step, const std::string& folder);

  std::string path_;
  int64_t start_step_;
  int file_ = -1;
  bool dropped_evaluation_ = false;
  std::vector<std::string> notes_;
  std::unique_ptr<EventWriter> events_;
};

}  // namespace saccade
