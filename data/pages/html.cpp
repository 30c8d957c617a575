#include "data/pages/html.h"

#include <algorithm>
#include <cmath>

#include "core/files/text.h"

namespace saccade {
namespace {

// The files next to this one.
constexpr std::string_view kSkeleton =
#include "data/pages/page.html.inc"
    ;
constexpr std::string_view kStyle =
#include "data/pages/page.css.inc"
    ;
constexpr std::string_view kScript =
#include "data/pages/page.js.inc"
    ;

// Returns the text with markup characters escaped.
std::string without_markup(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string html_escaped(std::string_view text) { return without_markup(escaped(text)); }

std::string count_text(int64_t count) {
  const std::string digits = std::to_string(count < 0 ? -count : count);
  std::string out = count < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size >= 999.5) return size < 1e15 ? count_text(std::llround(value)) : fmt::format("{:.3g}", value);
  if (size > 0 && size < 1e-4) return fmt::format("{:.2e}", value);
  std::string digits = fmt::format("{:.3g}", value);
  return digits.find('e') == std::string::npos ? digits : fmt::format("{:.0f}", value);
}

std::string share_text(double share) {
  if (!std::isfinite(share)) return "–";
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return fmt::format("{:.1f} %", 100 * share);
}

std::string metric_text(double value) {
  return std::isfinite(value) && value >= 0 ? fmt::format("{:.3f}", value) : "–";
}

Html html_table(const std::vector<TableColumn>& columns, const std::vector<std::vector<Html>>& rows) {
  Html out =
      html("<div class=\"scroll\"><table{}><thead><tr>", Html{rows.size() > 1 ? " class=\"sortable\"" : ""});
  auto kind = [&](size_t i) { return columns[i].is_number ? " class=\"n\"" : ""; };
  for (size_t i = 0; i < columns.size(); ++i) {
    out.code += fmt::format("<th scope=\"col\"{}", kind(i));
    if (!columns[i].hint.empty()) out += html(" title=\"{}\"", columns[i].hint);
    out += html(">{}</th>", columns[i].title);
  }
  out.code += "</tr></thead><tbody>\n";
  for (const std::vector<Html>& row : rows) {
    out.code += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) out.code += fmt::format("<td{}>{}</td>", kind(i), row[i].code);
    out.code += "</tr>\n";
  }
  out.code += "</tbody></table></div>\n";
  return out;
}

Html bar_cell(double share, const std::string& text) {
  return html("<span class=\"barred\"><span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>{}</span>",
              100 * std::min(std::max(share, 0.0), 1.0), text);
}

Html tiles(const std::vector<std::pair<std::string, std::string>>& tiles) {
  Html out{"<div class=\"tiles\">"};
  for (const auto& [number, word] : tiles) out += html("<div><b>{}</b><span>{}</span></div>", number, word);
  out.code += "</div>\n";
  return out;
}

Html note(const Html& text) { return html("<p class=\"note\">{}</p>\n", text); }
Html note(const std::string& text) { return note(html("{}", text)); }

Html grid(const char* kind, const std::vector<Html>& elements) {
  if (elements.empty()) return {};
  Html out = html("<div class=\"{}\">\n", kind);
  for (const Html& e : elements) out += e;
  out.code += "</div>\n";
  return out;
}

Html preformatted(const std::string& text) {
  return html("<pre>{}</pre>", Html{without_markup(escaped_lines(text))});
}

Html details(const std::string& title, const Html& content) {
  return html("<details><summary>{}</summary>\n{}</details>\n", title, content);
}

Page::Page(const std::string& title, const Html& lead) : title_(title), lead_(lead) {}

void Page::section(const std::string& title) {
  if (sections_ > 0) body_.code += "</section>\n";
  ++sections_;
  contents_ += html("<a href=\"#s{}\">{}</a>\n", sections_, title);
  body_ += html("<section id=\"s{}\"><h2>{}</h2>\n", sections_, title);
}

std::string Page::finish(const std::string& footer) const {
  const std::string title = html_escaped(title_), end = sections_ > 0 ? "</section>\n" : "";
  return fmt::format(fmt::runtime(kSkeleton), fmt::arg("title", title), fmt::arg("style", kStyle),
                     fmt::arg("lead", lead_.code), fmt::arg("contents", contents_.code),
                     fmt::arg("body", body_.code + end), fmt::arg("footer", html_escaped(footer)),
                     fmt::arg("script", kScript));
}

}  // namespace saccade
