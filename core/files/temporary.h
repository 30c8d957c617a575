// Files and folders that are removed when the work that made them does not end.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace saccade {

// Something at a path of the file system that is removed, at the end or by a signal (RemoveOnSignals), unless
// it is kept. A folder is removed with all in it, or only when it is empty.
class TemporaryPath {
 public:
  enum class Removal { kAll, kIfEmpty };
  explicit TemporaryPath(std::string path, Removal removal = Removal::kAll);
  ~TemporaryPath();
  TemporaryPath& operator=(TemporaryPath&&) = delete;

  const std::string& path() const { return path_; }
  void keep();  // it is not temporary any more

 private:
  std::string path_;
  Removal removal_;
  bool kept_ = false;
};

// Makes a folder that nobody has: START-PROCESS-N, as the first N of which there is none. Processes of other
// hosts and containers may have the same number. Throws InputError.
std::string make_own_folder(const std::string& start);

// A folder for results, made with its parents where they are missing. Those of them that are still empty at
// the end, or at a signal, go again.
class MadeFolder {
 public:
  // Throws InputError where it cannot be made; nothing is left then.
  explicit MadeFolder(const std::string& path);
  ~MadeFolder();
  MadeFolder& operator=(MadeFolder&&) = delete;

 private:
  // False where somebody took a parent away meanwhile, and `again` is allowed.
  bool make(const std::string& path, bool again);
  void remove_empty();

  std::vector<std::unique_ptr<TemporaryPath>> made_;  // the innermost last
};

// While this lives, SIGINT, SIGTERM and SIGHUP remove what is temporary before they end the program as they
// always do. A signal that whoever started the program told it to ignore stays ignored. Where the signal has
// a handler by then (InterruptScope), the first one is given to it, so that the work may end in its own way,
// and the second one ends the program. One at a time.
class RemoveOnSignals {
 public:
  RemoveOnSignals();
  ~RemoveOnSignals();
  RemoveOnSignals& operator=(RemoveOnSignals&&) = delete;

  // Does not return when a signal is ending the program: what fails then fails because its files are gone.
  void wait_if_ending() const;

 private:
  void watch();
  sigset_t signals_{}, before_{};
  int waking_ = 0;  // one of signals_, which ends the wait of `watch`; 0: all are ignored, so nobody waits
  std::atomic<bool> done_{false}, ending_{false};
  std::thread thread_;
};

}  // namespace saccade
