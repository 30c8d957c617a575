// The files of a run: config.textproto, metrics.jsonl, event files and checkpoints/{last,best}.safetensors.
#pragma once

#include <string>

#include "train/checkpoints/checkpoint.h"

namespace saccade {

class RunFolder {
 public:
  // Creates the folder with its checkpoints/. Throws InputError when that is impossible.
  explicit RunFolder(const std::string& path);

  const std::string& path() const { return path_; }
  std::string last() const { return checkpoint("last.safetensors"); }
  std::string best() const { return checkpoint("best.safetensors"); }
  bool has_last() const;
  void write_config(const std::string& text) const;

  // Everything that a resumed run needs. Throws Error when a tensor of the model is not finite; the file then
  // stays what it was.
  void save_last(const Module& model, const CheckpointInfo& info, const Optimizer& optimizer,
                 const Ema* ema) const;
  // The model's tensors as they are now. An evaluation that only a stop caused (not `scheduled`) keeps the
  // file of before aside, so that a resumed run ends like one that never stopped.
  void save_best(const Module& model, const CheckpointInfo& info, bool scheduled) const;
  // At the start of a resumed run: takes back what was kept aside.
  void restore_best() const;

 private:
  std::string checkpoint(const char* name) const;
  std::string kept_aside() const { return checkpoint(".best_before_stop.safetensors"); }
  std::string path_;
};

}  // namespace saccade
