// File descriptors: 0 to 2 belong to the standard streams, and no file that is read or written ever gets one
// of them.
#pragma once

#include <string>

namespace saccade {

// Opens those of 0 to 2 that whoever started the program has closed, each so that using it fails: what is
// printed is an error at the end and never a line in somebody's file. First of all in main().
void occupy_standard_streams();

// open(2) with close-on-exec, never 0 to 2; -1 with errno.
int open_descriptor(const std::string& path, int flags, int mode = 0);
// A second descriptor of the same open file, likewise.
int duplicate_descriptor(int descriptor);

// The number in /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N: pipes that whoever
// started the program gave it, as a shell does for <(COMMAND) and >(COMMAND). -1 for other names.
int own_descriptor(const std::string& path);

}  // namespace saccade
