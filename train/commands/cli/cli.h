// The command line: parses the arguments, runs the command, and turns exceptions into one line on stderr and
// an exit status (0 success, 2 the user's input is wrong, 1 any other failure).
#pragma once

#include <string>

namespace saccade {

// Must come first in main(): gives closed standard streams descriptors of their own, and ignores SIGPIPE and
// SIGXFSZ.
void prepare_process();

int run_command_line(int argc, const char* const* argv);

// The lines that --version prints (train/commands/shell/version.cpp): "saccade 0.2.0 (commit 1234abc)", then
// what was built in.
std::string version_text();

// The exit status and message for the current exception; for training, with what takes less memory.
struct CommandFailure {
  int status;
  std::string line;
};
CommandFailure current_failure(bool is_training);

}  // namespace saccade
