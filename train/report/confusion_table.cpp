#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/formats/json.h"
#include "data/pages/order.h"
#include "train/report/evaluation_sections.h"

namespace saccade {
namespace {

constexpr size_t kMaxClasses = 30, kMaxConfusions = 25;
constexpr const char* kBackground = "background";

int64_t row_sum(const std::vector<int64_t>& row) {
  return std::accumulate(row.begin(), row.end(), int64_t{0});
}

Html matrix_cell(int64_t count, int64_t of_row, bool is_hit) {
  if (count == 0) return {"<td class=\"zero\">0</td>"};
  const double share = of_row > 0 ? static_cast<double>(count) / static_cast<double>(of_row) : 0;
  return html("<td{} style=\"background:rgba(var(--heat),{:.2f})\" title=\"{} of the row\">{}</td>",
              Html{is_hit ? " class=\"hit\"" : ""}, 0.04 + 0.5 * share, share_text(share), count_text(count));
}

}  // namespace

Html confusion_table(const ConfusionMatrix& matrix, bool has_background) {
  const size_t classes = matrix.names.size();
  auto name = [&](size_t k) { return k < classes ? matrix.names[k] : std::string(kBackground); };
  std::vector<size_t> shown = falling_order(classes, [&](size_t k) { return row_sum(matrix.counts[k]); });
  shown.resize(std::min(classes, kMaxClasses));
  std::sort(shown.begin(), shown.end());
  if (has_background) shown.push_back(classes);
  Html out = html(
      "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th class=\"corner\">true \\ predicted</th>");
  for (size_t k : shown) out += html("<th scope=\"col\" title=\"{0}\">{0}</th>", name(k));
  out += html("</tr></thead><tbody>\n");
  for (size_t row : shown) {
    out += html("<tr><th scope=\"row\" title=\"{0}\">{0}</th>", name(row));
    for (size_t column : shown) {
      if (row == classes && column == classes)
        out += html("<td class=\"zero\">–</td>");
      else
        out += matrix_cell(matrix.counts[row][column], row_sum(matrix.counts[row]), row == column);
    }
    out += html("</tr>\n");
  }
  out += html("</tbody></table></div>\n");
  if (classes > kMaxClasses)
    out += note(fmt::format("The {} classes with the most objects, out of {}.", kMaxClasses, classes));

  std::vector<std::tuple<int64_t, size_t, size_t>>
      confusions;  // counts are negative, so that the largest comes first
  for (size_t r = 0; r < classes; ++r)
    for (size_t c = 0; c < classes; ++c)
      if (r != c && matrix.counts[r][c] > 0) confusions.emplace_back(-matrix.counts[r][c], r, c);
  if (confusions.empty() || classes < 4) return out;
  std::sort(confusions.begin(), confusions.end());
  if (confusions.size() > kMaxConfusions) confusions.resize(kMaxConfusions);
  std::vector<std::vector<Html>> rows;
  for (const auto& [count, r, c] : confusions)
    rows.push_back(
        cells(name(r), name(c), count_text(-count),
              share_text(static_cast<double>(-count) / static_cast<double>(row_sum(matrix.counts[r])))));
  out += html("<h3>Most frequent confusions</h3>\n");
  out += html_table({{"True", false}, {"Predicted", false}, {"Count"}, {"Of the true class"}}, rows);
  return out;
}

std::string confusion_json(const ConfusionMatrix& matrix) {
  std::string names, rows;
  for (size_t k = 0; k < matrix.counts.size(); ++k) {
    names += (k ? ", " : "") + json_quote(k < matrix.names.size() ? matrix.names[k] : kBackground);
    rows += fmt::format("{}\n  [{}]", k ? "," : "", fmt::join(matrix.counts[k], ", "));
  }
  return fmt::format("\"confusion_matrix\": {{\"names\": [{}], \"counts\": [{}]}}", names, rows);
}

}  // namespace saccade
