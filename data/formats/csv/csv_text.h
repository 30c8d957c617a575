// A table as text (RFC 4180), and what people write in place of it: blanks behind commas, semicolons, tabs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Cuts the text into lines of fields; a field in quotes may hold separators, quotes (doubled) and line ends.
// Blanks around a field that is not in quotes are left out.
class CsvText {
 public:
  // The separator is that of the first line: a comma, or a semicolon or tab where it has no comma.
  explicit CsvText(std::string_view text);

  // False at the end. Empty lines are passed over; a quote that does not end is a problem.
  bool next(std::vector<std::string>& fields, std::string& problem);
  int64_t line() const { return line_; }

 private:
  void read_line(std::vector<std::string>& fields, std::string& problem);
  void read_quoted(std::string& field, std::string& problem);

  std::string_view text_;
  char separator_ = ',';
  size_t at_ = 0;
  int64_t line_ = 0, lines_ = 0;
};

}  // namespace saccade
