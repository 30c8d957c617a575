#include "core/runtime/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace saccade {
namespace {

struct HandledSignal {
  int number;
  const char* name;
  struct sigaction before = {};
};
std::array<HandledSignal, 4> handled{
    {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"}}};

std::atomic<int> requested{0};
std::atomic<int64_t> requested_at{0};  // milliseconds
static_assert(std::atomic<int64_t>::is_always_lock_free, "a signal handler writes it");

int64_t milliseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

// Launchers signal both a process and its group: repeats within this many milliseconds are one request.
constexpr int64_t kSameRequest = 200;

void remember(int signal) {
  int none = 0;
  if (requested.compare_exchange_strong(none, signal))
    requested_at = milliseconds_now();
  else if (const int64_t at = requested_at; at != 0 && milliseconds_now() - at > kSameRequest)
    ::_exit(128 + signal);
}

}  // namespace

InterruptScope::InterruptScope() {
  requested = 0;
  requested_at = 0;
  for (HandledSignal& s : handled) {
    struct sigaction action {};
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(s.number, nullptr, &s.before);
    // A SIGHUP that nohup ignores stays ignored. SIGINT does not: shells ignore it for background jobs of
    // scripts, but whoever sends it there means it.
    if (s.number != SIGHUP || s.before.sa_handler != SIG_IGN) ::sigaction(s.number, &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  for (const HandledSignal& s : handled) ::sigaction(s.number, &s.before, nullptr);
  requested = 0;
}

int interrupt_signal() { return requested; }

const char* signal_name(int signal) {
  for (const HandledSignal& s : handled)
    if (s.number == signal) return s.name;
  return "a signal";
}

void check_interrupt() {
  if (requested != 0) throw Interrupted();
}

}  // namespace saccade
