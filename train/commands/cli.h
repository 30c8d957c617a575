// The command line: parses the arguments, runs the command, turns exceptions into one line on stderr and an
// exit status (0 done, 2 the user's input is wrong, 1 anything else).
#pragma once

namespace saccade {

// First of all in main(): closed standard streams get descriptors of their own, and SIGPIPE and SIGXFSZ end nothing.
void prepare_process();

int run_command_line(int argc, const char* const* argv);

}  // namespace saccade
