// One self-contained HTML page: no network, one script that sorts tables, pictures inside,
// light or dark as the viewer wishes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace saccade {

// Code of a page. Text from outside gets into it as an argument of html() alone, which escapes it.
struct Html {
  std::string code;
  Html& operator+=(const Html& more) {
    code += more.code;
    return *this;
  }
};

// As the text of an element or a quoted attribute; what is no UTF-8 and control characters as escaped() shows
// them.
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
// As fmt::format; strings are escaped, Html is taken as it is.
template <class... A>
Html html(fmt::string_view format, const A&... arguments) {
  return {fmt::format(fmt::runtime(format), html_argument(arguments)...)};
}

// The cells of a row, of text and Html.
template <class... A>
std::vector<Html> cells(const A&... values) {
  return {html("{}", values)...};
}
template <class... A>
void add_cells(std::vector<Html>& row, const A&... values) {
  (row.push_back(html("{}", values)), ...);
}

// "118,287"
std::string count_text(int64_t count);
// Three significant digits, and no exponent for what people read without one: "0.00312", "1,840", "12.5".
std::string number_text(double value);
// A fraction from 0 to 1 in per cent: "12.5 %", "< 0.1 %".
std::string share_text(double share);
// A metric with three decimals; a dash where there is none (-1, not finite).
std::string metric_text(double value);

struct TableColumn {
  std::string title;
  bool is_number = true;
  std::string hint = {};  // what it means, shown when the mouse rests on it
};
// Each row has a cell for each column. A click on a heading sorts the rows.
Html html_table(const std::vector<TableColumn>& columns, const std::vector<std::vector<Html>>& rows);
// Its length as a bar with the text next to it, in a cell.
Html bar_cell(double share, const std::string& text);
// Large numbers with a word below each.
Html tiles(const std::vector<std::pair<std::string, std::string>>& tiles);
// A sentence of explanation, in smaller letters.
Html note(const Html& text);
Html note(const std::string& text);
// Elements side by side, as many as have room: "charts" or "pictures".
Html grid(const char* kind, const std::vector<Html>& elements);
// Of these, in their order, the first `most` of which `show` makes something.
template <class Things, class Show>
std::vector<Html> first_shown(const Things& things, size_t most, Show show) {
  std::vector<Html> shown;
  for (const auto& thing : things) {
    if (shown.size() == most) break;
    if (Html one = show(thing); !one.code.empty()) shown.push_back(std::move(one));
  }
  return shown;
}
// Lines of text as they are.
Html preformatted(const std::string& text);
// What is shown on a click only.
Html details(const std::string& title, const Html& content);

class Page {
 public:
  Page(const std::string& title, const Html& lead);
  // A heading, which the page's table of contents names.
  void section(const std::string& title);
  void add(const Html& content) { body_ += content; }
  std::string finish(const std::string& footer) const;

 private:
  std::string title_;
  Html lead_, contents_, body_;
  int sections_ = 0;
};

}  // namespace saccade
