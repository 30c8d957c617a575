// Everything that the program prints. Names and values come from files and may hold anything, so control
// characters and bytes that are not UTF-8 are printed escaped (core/files/text.h).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace saccade {

// A line on stdout.
void print_line(std::string_view line);
template <class... A>
void print_line(fmt::format_string<A...> format, A&&... args) {
  print_line(std::string_view(fmt::format(format, std::forward<A>(args)...)));
}
// What another program of ours has printed, as it is, and at once.
void pass_to_stdout(std::string_view text);
// A line on stderr: of commands whose results go to stdout.
void print_note(std::string_view line);
// Text of several lines, or a part of one: its newlines stay.
void print_text(std::string_view text);
template <class... A>
void print_text(fmt::format_string<A...> format, A&&... args) {
  print_text(std::string_view(fmt::format(format, std::forward<A>(args)...)));
}
// "error: message" on stderr, after what was printed before; one line of bounded length.
void print_error(std::string_view message);

// Writes out what was printed. "", or why some of it is lost: "No space left on device".
std::string stdout_problem();

}  // namespace saccade
