#include "data/evaluation/metric_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/files/text.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

// The names become parts of the metrics' names, "AP_small".
bool is_name(std::string_view name) {
  constexpr size_t kLongest = 32;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && name.size() <= kLongest && is_letter(name[0]) && name != "all" &&
         std::ranges::all_of(name,
                             [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

// Parses the number at the start of the text and removes it.
bool take_number(std::string_view& text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

AreaRange parse_range(std::string_view text) {
  AreaRange range;
  const size_t colon = text.find(':');
  std::string_view numbers = colon == text.npos ? "" : text.substr(colon + 1);
  const bool has_low = take_number(numbers, range.low) && numbers.starts_with('-');
  if (has_low) numbers.remove_prefix(1);
  const bool ends = numbers.empty() || (take_number(numbers, range.high) && numbers.empty());
  if (!has_low || !ends)
    fail_input("area range \"{}\": expected NAME:LOW-HIGH with areas in pixels, like small:0-1024",
               printable(text));
  range.name = text.substr(0, colon);
  if (!is_name(range.name))
    fail_input(
        "area range \"{}\": expected a name of letters, digits and _ that starts with a letter, at most 32 in all, and not \"all\"",
        printable(text));
  if (range.low > range.high)
    fail_input("area range \"{}\": {} is more than {}", printable(text), range.low, range.high);
  return range;
}

}  // namespace

std::string MetricOptions::given_flags() const {
  return saccade::given_flags({{"--iou", iou.has_value()},
                               {"--max-detections", max_detections.has_value()},
                               {"--area-ranges", areas != coco_areas()}});
}

std::vector<AreaRange> coco_areas() {
  return {{"small", 0, 32 * 32}, {"medium", 32 * 32, 96 * 96}, {"large", 96 * 96, kLargestArea}};
}

std::vector<AreaRange> parse_area_ranges(std::string_view text) {
  constexpr size_t kMax = 32;
  std::vector<AreaRange> ranges;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != text.npos;
    ranges.push_back(parse_range(text.substr(0, comma)));
    if (more) text.remove_prefix(comma + 1);
    const std::string& name = ranges.back().name;
    if (std::ranges::count(ranges, name, &AreaRange::name) > 1)
      fail_input("area range \"{}\": two ranges have this name", name);
    if (ranges.size() > kMax) fail_input("more than {} area ranges", kMax);
  }
  return ranges;
}

}  // namespace saccade
