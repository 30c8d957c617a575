#include "core/files/temporary.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/tensor/error.h"

namespace saccade {
namespace {

struct Temporaries {
  std::mutex mutex;
  // In descending order, so that the contents of a folder come before the folder.
  std::map<std::string, TemporaryPath::Removal, std::greater<>> paths;
};
Temporaries& temporaries() {
  static Temporaries all;
  return all;
}

// Returns false if something is left that should be gone.
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

std::string make_own_folder(const std::string& start) {
  for (int n = 0;; ++n) {
    std::string path = fmt::format("{}-{}-{}", start, ::getpid(), n);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST)
      fail_input("{}: cannot write into the folder: {}", std::filesystem::path(start).parent_path().string(),
                 std::strerror(errno));
  }
}

MadeFolder::MadeFolder(const std::string& path) {
  // Another command that made the same parents removes them while they are empty.
  constexpr int kMaxTries = 1000;
  for (int tries = 1; !make(path, tries < kMaxTries);) ++tries;
}

bool MadeFolder::make(const std::string& path, bool again) {
  namespace fs = std::filesystem;
  fs::path at;
  for (const fs::path& part : fs::path(path)) {
    at /= part;
    if (::mkdir(at.c_str(), 0777) == 0) {
      made_.push_back(std::make_unique<TemporaryPath>(at.string(), TemporaryPath::Removal::kIfEmpty));
      continue;
    }
    const int reason = errno;
    std::error_code error;
    if (fs::is_directory(at, error)) continue;
    remove_empty();
    const fs::file_type now = fs::symlink_status(at, error).type();
    const bool changed = now == fs::file_type::not_found || now == fs::file_type::directory;
    if (again && (reason == ENOENT || (reason == EEXIST && changed))) return false;
    if (fs::exists(at, error)) fail_input("{}: is a file, expected a folder", at.string());
    fail_input("{}: cannot create the folder: {}", path, std::strerror(reason));
  }
  return true;
}

MadeFolder::~MadeFolder() { remove_empty(); }

void MadeFolder::remove_empty() {
  while (!made_.empty()) made_.pop_back();
}

RemoveOnSignals::RemoveOnSignals() {
  ::sigemptyset(&signals_);
  for (int signal : kEndingSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    ::sigaddset(&signals_, signal);
    waking_ = signal;
  }
  // Threads that are started from now on inherit the blocked signals, so that only `watch` receives them.
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
  std::optional<std::chrono::steady_clock::time_point> asked;
  for (;;) {
    if (::sigwait(&signals_, &signal) != 0 || done_) return;
    const auto now = std::chrono::steady_clock::now();
    // Launchers signal both a process and its group: repeats within this time are one request.
    if (asked && now - *asked < std::chrono::milliseconds(200)) continue;
    struct sigaction own {};
    ::sigaction(signal, nullptr, &own);
    if (asked || own.sa_handler == SIG_DFL || own.sa_handler == SIG_IGN) break;
    own.sa_handler(signal);
    asked = now;
  }
  ending_ = true;
  {
    Temporaries& all = temporaries();
    std::lock_guard lock(all.mutex);  // held from now on, so that nothing more becomes final or new
    // The work continues meanwhile and may add files to a folder while it is being removed.
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
    ::_exit(128 + signal);  // signals do not end the first process of a container
  }
}

void RemoveOnSignals::wait_if_ending() const {
  while (ending_) ::pause();
}

}  // namespace saccade
