#include "data/formats/checks/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace saccade {
namespace {

constexpr size_t kShownOfAKind = 20, kKinds = 50;

// Returns the line without the leading file and place, and without its numbers and quoted names.
std::string kind_of(std::string_view line) {
  for (const std::string_view unit : {": line ", ": shape "})
    if (const size_t at = line.find(unit); at != line.npos)
      line.remove_prefix(std::min(line.find_first_not_of("0123456789", at + unit.size()), line.size()));
  std::string kind;
  bool quoted = false, number = false;
  for (char c : line) {
    if (c == '"') quoted = !quoted;
    const bool part_of_number =
        std::isdigit(static_cast<unsigned char>(c)) || (number && (c == '.' || c == 'e'));
    if (part_of_number ? !number : !quoted) kind += part_of_number ? '#' : c;
    number = part_of_number;
  }
  return kind;
}

}  // namespace

void Findings::add(const std::string& line) { add(kind_of(line), line); }

void Findings::add(const std::string& kind, const std::string& line) {
  ++count_;
  auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.kind == kind; });
  if (group == groups_.end()) {
    // With so many kinds the grouping is useless: the rest is counted together.
    if (groups_.size() < kKinds) groups_.push_back({kind, {}, 0});
    group = groups_.end() - 1;
  }
  ++group->count;
  if (group->shown.size() < kShownOfAKind) group->shown.push_back(line);
}

std::vector<std::string> Findings::lines() const {
  std::vector<std::string> lines;
  for (const Group& g : groups_) {
    lines.insert(lines.end(), g.shown.begin(), g.shown.end());
    if (const int64_t more = g.count - static_cast<int64_t>(g.shown.size()); more > 0)
      lines.push_back(fmt::format("... and {} more like {}", more, g.shown.size() == 1 ? "it" : "these"));
  }
  return lines;
}

}  // namespace saccade
