// Everything that the program prints. Names and values come from files and may hold anything, so control
// characters and bytes that are not UTF-8 are printed escaped (core/files/text.h).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace saccade {

// Prints a line on stdout.
void print_line(std::string_view line);
template <class... A>
void print_line(fmt::format_string<A...> format, A&&... args) {
  print_line(std::string_view(fmt::format(format, std::forward<A>(args)...)));
}
// Prints the output of another of our processes, unchanged and at once.
void pass_to_stdout(std::string_view text);
// Prints a line on stderr, for commands whose results go to stdout.
void print_note(std::string_view line);
// Prints text of several lines, or part of a line: its newlines stay.
void print_text(std::string_view text);
template <class... A>
void print_text(fmt::format_string<A...> format, A&&... args) {
  print_text(std::string_view(fmt::format(format, std::forward<A>(args)...)));
}
// Prints "error: message" on stderr, after everything printed before; one line of bounded length.
void print_error(std::string_view message);

// Flushes stdout. Returns "", or why some output is lost: "No space left on device".
std::string stdout_problem();

}  // namespace saccade
