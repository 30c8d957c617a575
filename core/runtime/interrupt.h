// SIGINT, SIGTERM, SIGHUP and SIGUSR1 (which mpirun and schedulers pass on) as a request to stop: long work
// checks for it where it can stop without losing anything.
#pragma once

#include <exception>

namespace saccade {

// While an object lives, the first of these signals is only remembered, and another one at least 0.2 s later
// ends the process at once (exit status 128 + signal). A SIGHUP that was already ignored (nohup) stays
// ignored. At most one object may exist at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope& operator=(InterruptScope&&) = delete;
};

// Returns the signal that came while an InterruptScope lived, or 0.
int interrupt_signal();
const char* signal_name(int signal);  // "SIGTERM"

// Thrown by work whose result is no longer needed. Not an Error, since nothing went wrong.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted by a signal"; }
};
// Throws Interrupted if a signal came.
void check_interrupt();

}  // namespace saccade
