// The command line: parses the arguments, runs the command, turns exceptions into one line on stderr and an
// exit status (0 done, 2 the user's input is wrong, 1 anything else).
#pragma once

#include <string>

namespace saccade {

// First of all in main(): closed standard streams get descriptors of their own,
// and SIGPIPE and SIGXFSZ end nothing.
void prepare_process();

int run_command_line(int argc, const char* const* argv);

// What --version says (train/commands/shell/version.cpp), lines: "saccade 0.2.0 (commit 1234abc)", then what
// was built in.
std::string version_text();

// How the exception that is being handled ends a command; training is told what takes less memory.
struct CommandFailure {
  int status;
  std::string line;
};
CommandFailure current_failure(bool is_training);

}  // namespace saccade
