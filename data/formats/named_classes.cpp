#include "data/formats/named_classes.h"

#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr size_t kMaxNames = 65536;  // the maximum number of labels

}  // namespace

std::vector<std::string> read_class_list(const std::string& path) {
  std::istringstream in{std::string(without_mark(read_text(path, kTextFile)))};
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) names.emplace_back(trimmed(line));
  while (!names.empty() && names.back().empty()) names.pop_back();
  check_class_list(names, path);
  return names;
}

void check_class_list(const std::vector<std::string>& names, const std::string& path) {
  if (names.empty()) fail_input("{}: has no class names", path);
  if (names.size() > kMaxNames)
    fail_input("{}: {} classes, expected at most {}", path, names.size(), kMaxNames);
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail_input("{}: class {} has no name", path, i);
    if (!seen.insert(names[i]).second) fail_input("{}: the class \"{}\" appears twice", path, names[i]);
  }
}

std::vector<Category> number_classes(const std::vector<std::string>& names, const DataPaths& paths) {
  if (!paths.categories.empty()) return paths.categories;
  std::vector<Category> categories;
  for (const std::string& name : names)
    categories.push_back({static_cast<int64_t>(categories.size()) + 1, name});
  return categories;
}

void for_each_beside(const DataPaths& paths, const std::function<void(const DataPaths& other)>& visit) {
  for (const DataPaths& other : paths.beside) try {
      visit(other);
    } catch (const InputError&) {
    }
}

std::map<std::string, int64_t> ids_by_name(const std::vector<Category>& categories) {
  std::map<std::string, int64_t> ids;
  for (const Category& category : categories) ids.emplace(category.name, category.id);
  return ids;
}

std::string known_classes(const std::map<std::string, int64_t>& ids) {
  constexpr size_t kNamed = 10;
  std::string names;
  for (size_t named = 0; const auto& [name, id] : ids) {
    if (named++ == kNamed) {
      names += ", ...";
      break;
    }
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", printable(name));
  }
  return ids.size() == 1 ? "expected " + names : fmt::format("expected one of {}: {}", ids.size(), names);
}

std::optional<int64_t> id_of_class(const std::string& name, const std::map<std::string, int64_t>& ids,
                                   const GroundTruth& truth, Place place, const ProblemReport& report) {
  if (const auto it = ids.find(name); it != ids.end()) return it->second;
  report(fmt::format("{}: the class \"{}\" is unknown, {}", truth.text_of(place), name, known_classes(ids)));
  return std::nullopt;
}

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

double round_pixels(double value) { return std::round(value * 1e6) / 1e6; }

}  // namespace saccade
