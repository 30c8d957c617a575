#include "train/checkpoints/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/files/output_file.h"
#include "core/tensor/error.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

// Hidden files in the folder of the checkpoints.
constexpr const char *kNext = ".last.safetensors.tmp-next", *kPreviousLink = ".previous.safetensors.tmp-link",
                     *kKeptAside = ".best_before_stop.safetensors",
                     *kCopy = ".best_before_stop.safetensors.tmp-copy";

// Gives a file a second name, replacing an old one; copies it if the file system has no hard links.
void name_again(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::remove(to, error);
  fs::create_hard_link(from, to, error);
  if (!error) return;
  const std::string copy = to + ".tmp-copy";  // kCopy
  fs::copy_file(from, copy, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(copy, to, error);
  if (error) fail("{}: cannot write: {}", to, error.message());
}

void rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail("{}: cannot rename to {}: {}", from, to, std::strerror(errno));
}

// Opens a checkpoint from which training can continue.
ResumePoint open_resume_point(const std::string& path) {
  ResumePoint point;
  point.file = std::make_unique<SafetensorsReader>(path);
  point.file->verify();
  point.info = read_checkpoint_info(*point.file);
  return point;
}

}  // namespace

RunFolder::RunFolder(const std::string& path, bool writes) : path_(path), writes_(writes) {
  if (path.empty()) fail_input("--output: is empty, expected the folder of the run");
  if (!writes_) return;
  folder_.emplace(path);
  lock_.emplace(path);
  refuse_links();
  std::error_code error;
  fs::create_directories(path_ + "/checkpoints", error);
  if (error) fail_input("{}: cannot create the run folder: {}", path, error.message());
}

RunFolder::~RunFolder() {
  if (!writes_) return;
  // Removes only empty folders. Whoever takes the lock next creates checkpoints/ again.
  ::rmdir((path_ + "/checkpoints").c_str());
  lock_.reset();
}

// The folder that the user names may be a link, but its contents may be a stranger's. Hidden files are
// created anew, which replaces links.
void RunFolder::refuse_links() const {
  for (const std::string& path :
       {path_ + "/checkpoints", config(), metrics(), last(), previous(), best(), kept_aside()})
    refuse_link(path);
  std::error_code error;
  for (const char* name : {kNext, kPreviousLink, kCopy}) {
    const std::string path = checkpoint(name);
    if (fs::is_symlink(fs::symlink_status(path, error)) && ::unlink(path.c_str()) != 0)
      fail_input("{}: cannot be removed: {}", path, std::strerror(errno));
  }
}

std::string RunFolder::kept_aside() const { return checkpoint(kKeptAside); }

bool RunFolder::holds_run() const {
  for (const std::string& path : {last(), previous(), best(), kept_aside()})
    if (is_there(path)) return true;
  std::error_code error;
  const auto bytes = fs::file_size(metrics(), error);
  return !error && bytes > 0;
}

void RunFolder::refuse_run() const {
  if (holds_run())
    fail_input("{}: already holds a run, expected a new folder, or --resume to continue it", path_);
  check_outputs();
}

void RunFolder::refuse_others_files() const {
  if (writes_ && is_there(config()))
    fail_input("{}: already exists, but the run that it belongs to does not; expected a new folder",
               config());
}

// Otherwise hours of work would end at the first file that cannot be replaced.
void RunFolder::check_outputs() const {
  if (!writes_) return;
  for (const std::string& path : {config(), metrics(), best()}) output_target(path);
  for (const std::string& path : {last(), previous(), kept_aside()}) {  // these are replaced by renaming
    std::error_code error;
    if (is_there(path) && !fs::is_regular_file(fs::symlink_status(path, error)))
      fail_input("{}: exists but is not a file, expected a checkpoint or nothing", path);
  }
}

std::optional<ResumePoint> RunFolder::resume_point() {
  std::vector<std::string> faults;
  std::optional<ResumePoint> point;
  for (const std::string& path : {last(), previous()}) {
    try {
      point = open_resume_point(path);
      break;
    } catch (const InputError& e) {
      faults.emplace_back(e.what());
    }
  }
  if (point) {
    last_is_whole_ = faults.empty();
    point->skipped = std::move(faults);
    check_outputs();
    return point;
  }
  if (!holds_run()) return std::nullopt;
  fail_input(
      "{}: no checkpoint from which the run can continue ({}; {}); expected an intact one there, or another --output",
      path_, faults[0], faults[1]);
}

void RunFolder::remove_leftovers() const {
  if (!writes_) return;
  // Leftovers of OutputFile, of save_last, and of older versions of the program.
  auto is_leftover = [](const std::string& name) {
    return (name.starts_with(".saccade-") && name.ends_with(".tmp")) ||
           (name.starts_with(".") && name.find(".safetensors.tmp") != std::string::npos) ||
           name.starts_with("config.textproto.tmp-") || name.starts_with("metrics.jsonl.tmp-");
  };
  for (const std::string& folder : {path_, path_ + "/checkpoints"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      std::error_code ignored;
      if (is_leftover(entry.path().filename().string()) &&
          entry.symlink_status(ignored).type() != fs::file_type::directory)
        fs::remove(entry.path(), ignored);
    }
  }
}

void RunFolder::write_config(const std::string& text) const {
  if (writes_) write_file(config(), text);
}

void RunFolder::save_last(const Module& model, const CheckpointInfo& info, const Optimizer& optimizer,
                          const Ema* ema) {
  if (std::string name = first_nonfinite(model); !name.empty())
    fail(
        "training stopped after step {}: the model's tensor {} is not finite; the last good checkpoint is "
        "kept; a lower learning rate or a longer warm-up usually prevents this",
        info.step, name);
  if (!writes_) return;
  // Written completely to the disk before anything else changes. If the process is killed, remove_leftovers()
  // removes it.
  const std::string next = checkpoint(kNext);
  save_checkpoint(next, model, info, &optimizer, ema);
  if (last_is_whole_) keep_previous();
  rename_file(next, last());
  last_is_whole_ = true;
  sync_folder(path_ + "/checkpoints");
}

// Keeps a whole `last` at every moment if the file system has hard links, and otherwise a whole `previous`.
void RunFolder::keep_previous() const {
  if (!is_there(last())) return;
  const std::string link = checkpoint(kPreviousLink);
  ::unlink(link.c_str());
  if (::link(last().c_str(), link.c_str()) != 0) return rename_file(last(), previous());
  rename_file(link, previous());
  ::unlink(link.c_str());  // still there if both were the same file
}

void RunFolder::save_best(const Module& model, const CheckpointInfo& info, bool scheduled) const {
  if (!writes_) return;
  if (!scheduled && is_there(best())) name_again(best(), kept_aside());
  save_checkpoint(best(), model, info);
}

void RunFolder::restore_best() const {
  if (!writes_ || !is_there(kept_aside())) return;
  rename_file(kept_aside(), best());
  ::unlink(kept_aside().c_str());  // still there if both were the same file
}

RunLock::RunLock(const std::string& folder) : lock_(folder + "/.lock") {
  if (const std::string owner = lock_.take(); !owner.empty())
    fail_input("{}: {} is training in this folder; wait until it ends, or use another --output", folder,
               owner);
}

}  // namespace saccade
