// One self-contained HTML page: no network, one script that sorts tables, embedded pictures,
// light or dark as the viewer prefers.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace saccade {

// HTML code of a page. Text from outside gets into it only as an argument of html(), which escapes it.
struct Html {
  std::string code;
  Html& operator+=(const Html& more) {
    code += more.code;
    return *this;
  }
};

// Escapes text for an element or a quoted attribute; invalid UTF-8 and control characters appear as escaped()
// shows them.
std::string html_escaped(std::string_view text);

template <class T>
auto html_argument(const T& value) {
  if constexpr (std::is_same_v<T, Html>)
    return value.code;
  else if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return html_escaped(std::string_view(value));
}
// As fmt::format; strings are escaped, Html is inserted unchanged.
template <class... A>
Html html(fmt::string_view format, const A&... arguments) {
  return {fmt::format(fmt::runtime(format), html_argument(arguments)...)};
}

// Makes the cells of a row from text and Html.
template <class... A>
std::vector<Html> cells(const A&... values) {
  return {html("{}", values)...};
}
template <class... A>
void add_cells(std::vector<Html>& row, const A&... values) {
  (row.push_back(html("{}", values)), ...);
}

// Returns "118,287".
std::string count_text(int64_t count);
// Returns three significant digits, without an exponent in the usual range: "0.00312", "1,840", "12.5".
std::string number_text(double value);
// Returns a fraction from 0 to 1 in per cent: "12.5 %", "< 0.1 %".
std::string share_text(double share);
// Returns a metric with three decimals; a dash if there is none (-1, not finite).
std::string metric_text(double value);

struct TableColumn {
  std::string title;
  bool is_number = true;
  std::string hint = {};  // its meaning, shown when the mouse is over it
};
// Each row has a cell for each column. A click on a heading sorts the rows.
Html html_table(const std::vector<TableColumn>& columns, const std::vector<std::vector<Html>>& rows);
// Shows a value in a cell as a bar of this length with the text next to it.
Html bar_cell(double share, const std::string& text);
// Large numbers with a word below each.
Html tiles(const std::vector<std::pair<std::string, std::string>>& tiles);
// A sentence of explanation, in smaller letters.
Html note(const Html& text);
Html note(const std::string& text);
// Puts elements side by side, as many as fit: "charts" or "pictures".
Html grid(const char* kind, const std::vector<Html>& elements);
// Returns the first `most` results of `show` that are not empty, in the order of these things.
template <class Things, class Show>
std::vector<Html> first_shown(const Things& things, size_t most, Show show) {
  std::vector<Html> shown;
  for (const auto& thing : things) {
    if (shown.size() == most) break;
    if (Html one = show(thing); !one.code.empty()) shown.push_back(std::move(one));
  }
  return shown;
}
// Shows lines of text unchanged.
Html preformatted(const std::string& text);
// Shows the content only after a click.
Html details(const std::string& title, const Html& content);

class Page {
 public:
  Page(const std::string& title, const Html& lead);
  // Adds a heading, which also appears in the page's table of contents.
  void section(const std::string& title);
  void add(const Html& content) { body_ += content; }
  std::string finish(const std::string& footer) const;

 private:
  std::string title_;
  Html lead_, contents_, body_;
  int sections_ = 0;
};

}  // namespace saccade
