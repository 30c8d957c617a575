#include "layers/args.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/error.h"

namespace saccade {

namespace {

// "1 to 64", "at least 1", or "" if nothing is excluded.
template <class T>
std::string range_text(T low, T high, T lowest, T highest) {
  if (low == lowest && high == highest) return "";
  if (high == highest) return fmt::format("at least {}", low);
  if (low == lowest) return fmt::format("at most {}", high);
  return fmt::format("{} to {}", low, high);
}

std::string value_text(const Args::Value& value) {
  return std::visit(
      [](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) return fmt::format("\"{}\"", v);
        if constexpr (std::is_arithmetic_v<T>)
          return fmt::format("{}", v);
        else
          return fmt::format("[{}]", fmt::join(v, ", "));
      },
      value);
}

}  // namespace

Args& Args::section(const std::string& key) {
  auto [it, is_new] = sections_.try_emplace(key, full(key));
  return it->second;
}

const Args::Value* Args::find(const std::string& key, Reading reading) const {
  read_.insert_or_assign(key, std::move(reading));
  auto it = values_.find(key);
  if (it != values_.end()) return &it->second;
  it = defaults_.find(key);
  return it == defaults_.end() ? nullptr : &it->second;
}

const Args::Value& Args::default_of(const std::string& key) const {
  auto it = defaults_.find(key);
  SACCADE_CHECK(it != defaults_.end(), "[args] {} has no default, expected one of the schema", full(key));
  return it->second;
}

template <class T>
const T* Args::find_as(const std::string& key, Reading reading, const char* expected) const {
  const Value* value = find(key, std::move(reading));
  if (!value) return nullptr;
  const T* typed = std::get_if<T>(value);
  if (!typed) fail_input("{}: expected {}", full(key), expected);
  return typed;
}

int64_t Args::get_int(const std::string& key, int64_t fallback, int64_t low, int64_t high) const {
  const auto* i = find_as<int64_t>(
      key, {"int", std::to_string(fallback), range_text(low, high, INT64_MIN, INT64_MAX)}, "a whole number");
  if (!i) return fallback;
  if (*i < low || *i > high)
    fail_input("{}: {} is out of range, expected {} to {}", full(key), *i, low, high);
  return *i;
}

double Args::get_float(const std::string& key, double fallback, double low, double high) const {
  const Value* v = find(key, {"float", fmt::format("{}", fallback), range_text(low, high, -1e300, 1e300)});
  if (!v) return fallback;
  double x = 0;
  if (const auto* d = std::get_if<double>(v)) {
    x = *d;
  } else if (const auto* i = std::get_if<int64_t>(v)) {
    x = static_cast<double>(*i);
  } else {
    fail_input("{}: expected a number", full(key));
  }
  if (!(x >= low && x <= high))
    fail_input("{}: {} is out of range, expected {} to {}", full(key), x, low, high);
  return x;
}

bool Args::get_bool(const std::string& key, bool fallback) const {
  const bool* value = find_as<bool>(key, {"bool", fallback ? "true" : "false", ""}, "true or false");
  return value ? *value : fallback;
}

std::string Args::get_string(const std::string& key, const std::string& fallback) const {
  const auto* text = find_as<std::string>(key, {"string", fmt::format("\"{}\"", fallback), ""}, "a string");
  return text ? *text : fallback;
}

std::string Args::get_choice(const std::string& key, const std::string& fallback,
                             const std::vector<std::string>& choices) const {
  std::string s = get_string(key, fallback);
  read_.at(key).range = fmt::format("{}", fmt::join(choices, ", "));
  if (std::find(choices.begin(), choices.end(), s) == choices.end())
    fail_input("{}: \"{}\" is not known, expected one of {}", full(key), shortened(s),
               fmt::join(choices, ", "));
  return s;
}

std::vector<int64_t> Args::get_ints(const std::string& key, const std::vector<int64_t>& fallback, int64_t low,
                                    int64_t high) const {
  const auto* list = find_as<std::vector<int64_t>>(
      key, {"ints", fmt::format("{}", fallback), range_text(low, high, INT64_MIN, INT64_MAX)},
      "a list of whole numbers");
  if (!list) return fallback;
  for (int64_t i : *list)
    if (i < low || i > high) fail_input("{}: {} is out of range, expected {} to {}", full(key), i, low, high);
  return *list;
}

std::vector<double> Args::get_floats(const std::string& key, const std::vector<double>& fallback) const {
  const auto* list =
      find_as<std::vector<double>>(key, {"floats", fmt::format("{}", fallback), ""}, "a list of numbers");
  if (!list) return fallback;
  for (double x : *list)
    if (!std::isfinite(x)) fail_input("{}: contains {}, expected finite numbers", full(key), x);
  return *list;
}

const Args& Args::get_section(const std::string& key) const {
  static const Args kEmpty;
  read_.insert_or_assign(key, Reading{"section", "", ""});
  auto it = sections_.find(key);
  return it == sections_.end() ? kEmpty : it->second;
}

bool Args::has_only_defaults() const {
  for (const auto& [key, value] : values_)
    if (auto it = defaults_.find(key); it == defaults_.end() || it->second != value) return false;
  return std::all_of(sections_.begin(), sections_.end(),
                     [](const auto& section) { return section.second.has_only_defaults(); });
}

void Args::finish(const std::string& reader) const {
  auto refuse = [&](const std::string& key) {
    std::vector<std::string> known;
    for (const auto& [name, reading] : read_) known.push_back(name);
    fail_input("{}: not an argument here, expected one of {}", full(key), fmt::join(known, ", "));
  };
  for (const auto& [key, value] : values_) {
    if (read_.contains(key)) continue;
    auto it = defaults_.find(key);
    if (it == defaults_.end()) refuse(key);
    if (it->second != value)
      fail_input("{}: {} is not used by {}, expected {}", full(key), value_text(value), reader,
                 value_text(it->second));
  }
  for (const auto& [key, section] : sections_)
    if (!read_.contains(key) && !section.has_only_defaults()) refuse(key);
}

}  // namespace saccade
