#include "core/formats/temporary.h"

#include <pthread.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace saccade {
namespace {

struct Temporaries {
  std::mutex mutex;
  std::map<std::string, TemporaryPath::Removal, std::greater<>>
      paths;  // what lies in a folder before the folder
};
Temporaries& temporaries() {
  static Temporaries all;
  return all;
}

// False when something is left that should be gone.
bool remove_temporary(const std::string& path, TemporaryPath::Removal removal) {
  std::error_code error;
  if (removal == TemporaryPath::Removal::kIfEmpty) {
    std::filesystem::remove(path, error);
    return true;
  }
  std::filesystem::remove_all(path, error);
  return !std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

TemporaryPath::TemporaryPath(std::string path, Removal removal) : path_(std::move(path)), removal_(removal) {
  Temporaries& all = temporaries();
  std::lock_guard lock(all.mutex);
  all.paths.emplace(path_, removal_);
}

TemporaryPath::~TemporaryPath() {
  if (!kept_) remove_temporary(path_, removal_);
  keep();
}

void TemporaryPath::keep() {
  if (std::exchange(kept_, true)) return;
  Temporaries& all = temporaries();
  std::lock_guard lock(all.mutex);
  all.paths.erase(path_);
}

RemoveOnSignals::RemoveOnSignals() {
  ::sigemptyset(&signals_);
  for (int signal : kEndingSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    ::sigaddset(&signals_, signal);
    waking_ = signal;
  }
  // Threads that are started from here on have these signals blocked too, so that only `watch` takes them.
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  if (waking_ != 0) thread_ = std::thread([this] { watch(); });
}

RemoveOnSignals::~RemoveOnSignals() {
  done_ = true;
  if (thread_.joinable()) {
    ::pthread_kill(thread_.native_handle(), waking_);
    thread_.join();
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void RemoveOnSignals::watch() {
  int signal = 0;
  if (::sigwait(&signals_, &signal) != 0 || done_) return;
  ending_ = true;
  {
    Temporaries& all = temporaries();
    std::lock_guard lock(all.mutex);  // kept: nothing becomes final or new any more
    // The work goes on beside this and may add files to a folder while it is being removed.
    bool gone = false;
    for (int attempt = 0; attempt < 100 && !gone; ++attempt) {
      gone = true;
      for (const auto& [path, removal] : all.paths) gone = remove_temporary(path, removal) && gone;
    }
    ::signal(signal, SIG_DFL);
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    ::kill(::getpid(), signal);
    ::_exit(128 + signal);  // the first process of a container survives its signals
  }
}

void RemoveOnSignals::wait_if_ending() const {
  while (ending_) ::pause();
}

}  // namespace saccade
