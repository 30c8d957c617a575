// What a training run writes while it runs: metrics.jsonl and a TensorBoard event file in the run folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/logs/tensorboard.h"

namespace saccade {

class RunLog {
 public:
  // Creates the folder. A new run (resume_step < 0) starts an empty metrics.jsonl; a resumed one first
  // removes the lines after its checkpoint's step, those of evaluations that only an early stop caused, and
  // what is no line of ours (a process that was killed may have written half a line), so that no step is
  // there twice. Event files likewise.
  RunLog(const std::string& folder, int64_t resume_step);
  ~RunLog();
  RunLog& operator=(RunLog&&) = delete;

  // What was found damaged at the start, a line each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Whether an evaluation at resume_step that only an early stop caused was removed.
  bool dropped_evaluation() const { return dropped_evaluation_; }

  // Appends one line {"type": type, "step": step, "NAME": number, ...}, in one piece. Numbers that
  // JSON lacks (NaN, infinities) become null. TensorBoard shows them as "type/NAME". A resumed run's lines
  // end with "start_step": resume_step. `early_stop` marks an evaluation that a whole run would not have
  // made.
  void record(const std::string& type, int64_t step, const Metrics& values, bool early_stop = false);
  // For TensorBoard only, with an evaluation's line: tags begin with "eval/".
  void pictures(int64_t step, const std::vector<EventPicture>& pictures) {
    events_->pictures(step, pictures);
  }
  // All lines are on the disk when this returns; before a checkpoint that relies on them.
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
