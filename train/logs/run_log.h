// What a training run writes while it runs: metrics.jsonl and a TensorBoard event file in the run folder.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "train/logs/tensorboard.h"

namespace saccade {

class RunLog {
 public:
  // Creates the folder. A new run (resume_step < 0) starts an empty metrics.jsonl; a resumed one first
  // removes the lines after its checkpoint's step, and those of evaluations that only an early stop caused,
  // so that no step is there twice.
  RunLog(const std::string& folder, int64_t resume_step);

  // One line {"type": type, "step": step, "NAME": number, ...}, on disk before this returns. Numbers that
  // JSON lacks (NaN, infinities) become null. TensorBoard shows them as "type/NAME". `early_stop` marks an
  // evaluation that a whole run would not have made.
  void record(const std::string& type, int64_t step, const Metrics& values, bool early_stop = false);

 private:
  std::string path_;
  std::ofstream file_;
  std::unique_ptr<EventWriter> events_;
};

}  // namespace saccade
