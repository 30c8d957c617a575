// File descriptors: 0 to 2 belong to the standard streams; no file that is read or written ever gets one of
// them.
#pragma once

#include <string>

namespace saccade {

// Opens those of 0 to 2 that were closed when the program started, each in a mode in which using it fails:
// printed text then causes an error at the end instead of landing in some file. main() calls this first.
void occupy_standard_streams();

// open(2) with close-on-exec; never returns 0 to 2. Returns -1 and sets errno on failure.
int open_descriptor(const std::string& path, int flags, int mode = 0);
// Returns a second descriptor of the same open file, likewise.
int duplicate_descriptor(int descriptor);

// Returns the number in /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N: descriptors that
// the program inherited, as from a shell's <(COMMAND) and >(COMMAND). Returns -1 for other names.
int own_descriptor(const std::string& path);

}  // namespace saccade
