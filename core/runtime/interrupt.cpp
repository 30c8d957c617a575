#include "core/runtime/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace saccade {
namespace {

struct HandledSignal {
  int number;
  const char* name;
  struct sigaction before = {};
};
std::array<HandledSignal, 3> handled{{{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}};

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

void remember(int signal) {
  int none = 0;
  if (!requested.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
}

}  // namespace

InterruptScope::InterruptScope() {
  requested = 0;
  for (HandledSignal& s : handled) {
    struct sigaction action {};
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(s.number, nullptr, &s.before);
    // nohup's SIGHUP stays ignored. SIGINT does not: shells ignore it for what a script starts in the background, and who sends it
    // there means it.
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
