// Lines of comma-separated values (RFC 4180).
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// Returns the text as a field: in quotes if it contains a comma, a quote or an end of line.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace saccade
