// Files and folders that are removed if the work that made them fails.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace saccade {

// A path in the file system that is removed at the end or by a signal (RemoveOnSignals), unless it is kept. A
// folder is removed with its contents, or only if it is empty.
class TemporaryPath {
 public:
  enum class Removal { kAll, kIfEmpty };
  explicit TemporaryPath(std::string path, Removal removal = Removal::kAll);
  ~TemporaryPath();
  TemporaryPath& operator=(TemporaryPath&&) = delete;

  const std::string& path() const { return path_; }
  void keep();  // it is no longer temporary

 private:
  std::string path_;
  Removal removal_;
  bool kept_ = false;
};

// Makes a folder that nobody else uses: START-PROCESS-N, with the first N that does not exist yet.
// Processes of other hosts and containers may have the same number. Throws InputError.
std::string make_own_folder(const std::string& start);

// A folder for results, made with its missing parents. Those that are still empty at the end, or at a signal,
// are removed again.
class MadeFolder {
 public:
  // Throws InputError if it cannot be made; nothing is left then.
  explicit MadeFolder(const std::string& path);
  ~MadeFolder();
  MadeFolder& operator=(MadeFolder&&) = delete;

 private:
  // Returns false if a parent was removed meanwhile and `again` is allowed.
  bool make(const std::string& path, bool again);
  void remove_empty();

  std::vector<std::unique_ptr<TemporaryPath>> made_;  // innermost last
};

// While an object lives, SIGINT, SIGTERM and SIGHUP remove temporary paths before they end the program as
// usual. A signal that was ignored when the program started stays ignored. If the signal has another handler
// by then (InterruptScope), the first signal goes to it, so that the work can end in its own way, and the
// second one ends the program. At most one object may exist at a time.
class RemoveOnSignals {
 public:
  RemoveOnSignals();
  ~RemoveOnSignals();
  RemoveOnSignals& operator=(RemoveOnSignals&&) = delete;

  // Does not return if a signal is ending the program: what fails then fails because its files are gone.
  void wait_if_ending() const;

 private:
  void watch();
  sigset_t signals_{}, before_{};
  int waking_ = 0;  // one of signals_, which ends the wait of `watch`; 0 if all are ignored
  std::atomic<bool> done_{false}, ending_{false};
  std::thread thread_;
};

}  // namespace saccade
