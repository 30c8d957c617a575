#include "train/logs/print.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/files/text.h"

namespace saccade {
namespace {

int lost_because = 0;  // the first errno of stdout

// For any thread; a stream itself remembers only that it failed.
void put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() && lost_because == 0)
    lost_because = errno;
}

}  // namespace

void print_line(std::string_view line) { put(escaped(line) + "\n"); }

void pass_to_stdout(std::string_view text) {
  put(text);
  stdout_problem();  // which records the reason
}

void print_note(std::string_view line) { std::fprintf(stderr, "%s\n", escaped(line).c_str()); }

void print_text(std::string_view text) { put(escaped_lines(text)); }

void print_error(std::string_view message) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", one_line(message).c_str());
}

std::string stdout_problem() {
  if (std::fflush(stdout) != 0 && lost_because == 0) lost_because = errno;
  if (std::ferror(stdout) == 0 && lost_because == 0) return "";
  return lost_because != 0 ? std::strerror(lost_because) : "an output error";
}

}  // namespace saccade
