// SIGINT, SIGTERM, SIGHUP and SIGUSR1 (which mpirun and schedulers pass on) as a request: long work looks at
// it where it can stop without losing anything.
#pragma once

#include <exception>

namespace saccade {

// While one lives, the first of these signals is only remembered and another one, at least 0.2 s later, ends
// the process at once (exit status 128 + signal). A SIGHUP that was ignored before (nohup) stays ignored. Not
// more than one at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope& operator=(InterruptScope&&) = delete;
};

// The signal that came while an InterruptScope lived, else 0.
int interrupt_signal();
const char* signal_name(int signal);  // "SIGTERM"

// What work throws that nobody waits for any more. Not an Error: nothing went wrong.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted by a signal"; }
};
// Throws Interrupted after a signal.
void check_interrupt();

}  // namespace saccade
