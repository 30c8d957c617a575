#include "tests/cuda_emulator/launch_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/cuda_emulator/memory.h"

namespace saccade::emulator {
namespace {

const char* path_of_log() {
  static const char* path = std::getenv("SACCADE_EMULATOR_KERNELS");
  return path;
}

}  // namespace

LaunchLog& launch_log() {
  static auto* log = new LaunchLog;  // tensors with static storage are freed after any static object
  return *log;
}

LaunchLog::LaunchLog() { std::atexit(&LaunchLog::write); }

void LaunchLog::add(const std::string& name) {
  if (!dry() || path_of_log()) ++launches_[name].count;
}

void LaunchLog::add_accesses(const std::string& name, uint64_t threads, uint64_t accesses) {
  const auto known = launches_.find(name);
  if (threads >= kFewThreads || known == launches_.end()) return;
  Launches& l = known->second;
  if (l.threads > 0 && accesses <= l.accesses) return;
  l.threads = threads;
  l.accesses = accesses;
}

std::vector<std::string> LaunchLog::names() const {
  std::vector<std::string> names;
  for (const auto& [name, launches] : launches_) names.push_back(name);
  return names;
}

void LaunchLog::write() {
  const char* path = path_of_log();
  if (!path) return;
  std::string list;
  for (const auto& [name, l] : launch_log().launches_)
    list += fmt::format("{} {} {} {}\n", l.count, l.threads, l.accesses, name);
  // Written in one piece, since other programs may be ending, too.
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (file < 0 || ::write(file, list.data(), list.size()) != std::ssize(list)) std::abort();
  ::close(file);
}

}  // namespace saccade::emulator
