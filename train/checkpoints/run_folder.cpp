#include "train/checkpoints/run_folder.h"

#include <filesystem>

#include "core/formats/output_file.h"
#include "core/tensor/error.h"

namespace saccade {

namespace fs = std::filesystem;

RunFolder::RunFolder(const std::string& path) : path_(path) {
  std::error_code error;
  fs::create_directories(fs::path(path) / "checkpoints", error);
  if (error) fail_input("{}: cannot create the run folder: {}", path, error.message());
}

std::string RunFolder::checkpoint(const char* name) const {
  return (fs::path(path_) / "checkpoints" / name).string();
}

bool RunFolder::has_last() const { return fs::exists(last()); }

void RunFolder::write_config(const std::string& text) const {
  write_file((fs::path(path_) / "config.textproto").string(), text);
}

void RunFolder::save_last(const Module& model, const CheckpointInfo& info, const Optimizer& optimizer,
                          const Ema* ema) const {
  if (std::string name = first_nonfinite(model); !name.empty())
    fail(
        "training stopped after step {}: the model's tensor {} is not finite; the last good checkpoint is "
        "kept",
        info.step, name);
  save_checkpoint(last(), model, info, &optimizer, ema);
}

void RunFolder::save_best(const Module& model, const CheckpointInfo& info, bool scheduled) const {
  if (!scheduled && fs::exists(best())) {
    std::error_code ignored;
    fs::remove(kept_aside(), ignored);
    fs::create_hard_link(best(), kept_aside());
  }
  save_checkpoint(best(), model, info);
}

void RunFolder::restore_best() const {
  if (!fs::exists(kept_aside())) return;
  fs::rename(kept_aside(), best());
  fs::remove(kept_aside());  // still there when both were one file
}

}  // namespace saccade
