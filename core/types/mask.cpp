#include "core/types/mask.h"

#include <algorithm>
#include <ranges>

#include "core/tensor/error.h"
#include "core/types/nearest.h"

namespace saccade {
namespace {

void check_same_size(const Mask& a, const Mask& b) {
  SACCADE_CHECK(a.size() == b.size(), "[mask] {} x {} and {} x {} pixels, expected the same size",
                a.size().width, a.size().height, b.size().width, b.size().height);
}

// Returns for every old pixel of a side the first new one that copies it or a later one, followed by `after`.
std::vector<int64_t> first_made_of(int64_t before, int64_t after) {
  const std::vector<int64_t> from = nearest_pixels(before, after);
  std::vector<int64_t> first;
  for (int64_t pixel = 0; pixel < before; ++pixel)
    first.push_back(std::ranges::lower_bound(from, pixel) - from.begin());
  first.push_back(after);
  return first;
}

}  // namespace

int64_t Mask::pixels_of(ImageSize size) {
  if (size.height < 1 || size.width < 1 || size.width > kMaxImagePixels / size.height)
    fail_input("mask: {} x {} pixels, expected 1 to {} in total", size.width, size.height, kMaxImagePixels);
  return size.height * size.width;
}

void Mask::append(std::vector<Run>& runs, int64_t begin, int64_t end) {
  if (begin == end) return;
  if (!runs.empty() && runs.back().end >= begin)
    runs.back().end = std::max(runs.back().end, static_cast<uint32_t>(end));
  else
    runs.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
}

Mask::Mask(ImageSize size, std::vector<Run> runs) : size_(size), runs_(std::move(runs)) {
  if (runs_.empty()) return;
  const auto height = static_cast<uint32_t>(size_.height);
  uint32_t top = height, bottom = 0;
  for (const Run& run : runs_) {
    area_ += run.end - run.begin;
    const uint32_t column = run.begin / height * height;
    const bool is_in_one = run.end <= column + height;
    top = is_in_one ? std::min(top, run.begin - column) : 0;
    bottom = is_in_one ? std::max(bottom, run.end - column) : height;
  }
  box_ = {double(runs_.front().begin / height), double(top), double((runs_.back().end - 1) / height + 1),
          double(bottom)};
}

Mask Mask::from_counts(ImageSize size, std::span<const int64_t> counts) {
  const int64_t pixels = pixels_of(size);
  std::vector<Run> runs;
  int64_t at = 0;
  for (size_t i = 0; i < counts.size(); at += counts[i++]) {
    if (counts[i] < 0) fail_input("mask: count {} is {}, expected 0 or more", i + 1, counts[i]);
    if (counts[i] > pixels - at)
      fail_input("mask: its counts add up to more than its {} x {} pixels", size.width, size.height);
    if (i % 2 == 1) append(runs, at, at + counts[i]);
  }
  if (at != pixels)
    fail_input("mask: its counts add up to {}, expected {} ({} x {} pixels)", at, pixels, size.width,
               size.height);
  return {size, std::move(runs)};
}

std::vector<uint32_t> Mask::counts() const {
  std::vector<uint32_t> counts;
  uint32_t at = 0;
  for (const Run& run : runs_) {
    counts.insert(counts.end(), {run.begin - at, run.end - run.begin});
    at = run.end;
  }
  const auto pixels = static_cast<uint32_t>(size_.height * size_.width);
  if (at < pixels) counts.push_back(pixels - at);
  return counts;
}

// From the fourth on, a count is written as its difference from the last but one, in two's complement: five
// bits per character, lowest first, plus 32 if more follow, plus '0'.
Mask Mask::from_text(ImageSize size, std::string_view text) {
  constexpr int kMaxBits = 35;  // of a difference of two counts
  std::vector<int64_t> counts;
  for (size_t i = 0; i < text.size();) {
    int64_t value = 0;
    for (int bits = 0, more = 32; more != 0; ++i) {
      if (i == text.size()) fail_input("mask: its text ends within a number");
      const int digit = static_cast<unsigned char>(text[i]) - '0';
      if (digit < 0 || digit > 63)
        fail_input("mask: byte {} of its text is {:#04x}, expected '0' to 'o'", i + 1, digit + '0');
      if (bits == kMaxBits) fail_input("mask: byte {} of its text makes a number too large", i + 1);
      value |= int64_t{digit & 31} << bits;
      bits += 5;
      more = digit & 32;
      if (more == 0 && (digit & 16) != 0) value -= int64_t{1} << bits;
    }
    if (counts.size() > 2) value += counts[counts.size() - 2];
    counts.push_back(value);
  }
  return from_counts(size, counts);
}

std::string Mask::text() const {
  std::string text;
  const std::vector<uint32_t> all = counts();
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t value = int64_t{all[i]} - (i > 2 ? all[i - 2] : 0);
    for (bool more = true; more;) {
      const auto digit = static_cast<int>(value & 31);
      value >>= 5;
      more = value != ((digit & 16) != 0 ? -1 : 0);
      text += static_cast<char>('0' + digit + (more ? 32 : 0));
    }
  }
  return text;
}

Mask Mask::from_runs(ImageSize size, std::span<const Run> runs) {
  const auto count = static_cast<uint32_t>(pixels_of(size));
  std::vector<Run> joined;
  uint32_t at = 0;
  for (const Run& run : runs) {
    SACCADE_CHECK(at <= run.begin && run.begin <= run.end && run.end <= count,
                  "[mask] a run from {} to {}, expected ascending runs within {} pixels", run.begin, run.end,
                  count);
    append(joined, run.begin, run.end);
    at = run.end;
  }
  return {size, std::move(joined)};
}

Mask Mask::from_bitmap(ImageSize size, std::span<const uint8_t> pixels) {
  const auto count = static_cast<uint32_t>(pixels_of(size));
  SACCADE_CHECK(pixels.size() == count, "[mask] {} pixels for {} x {}", pixels.size(), size.width,
                size.height);
  std::vector<Run> runs;
  bool is_set = false;
  uint32_t at = 0;
  for (int64_t x = 0; x < size.width; ++x)
    for (int64_t y = 0; y < size.height; ++y, ++at) {
      if ((pixels[static_cast<size_t>(y * size.width + x)] != 0) == is_set) continue;
      if (is_set)
        runs.back().end = at;
      else
        runs.push_back({at, count});
      is_set = !is_set;
    }
  return {size, std::move(runs)};
}

std::vector<uint8_t> Mask::bitmap() const {
  std::vector<uint8_t> pixels(static_cast<size_t>(size_.height * size_.width));
  for_each_part([&](int64_t x, int64_t top, int64_t bottom) {
    for (int64_t y = top; y < bottom; ++y) pixels[static_cast<size_t>(y * size_.width + x)] = 1;
  });
  return pixels;
}

Mask Mask::crop(int64_t y, int64_t x, ImageSize window) const {
  pixels_of(window);
  std::vector<Run> runs;
  for_each_part([&](int64_t from, int64_t top, int64_t bottom) {
    if (from < x || from >= x + window.width) return;
    const int64_t column = (from - x) * window.height;
    auto inside = [&](int64_t row) { return column + std::clamp<int64_t>(row - y, 0, window.height); };
    append(runs, inside(top), inside(bottom));
  });
  return {window, std::move(runs)};
}

Mask Mask::flip_horizontal() const {
  std::vector<Run> parts;
  for_each_part([&](int64_t x, int64_t top, int64_t bottom) {
    const int64_t column = (size_.width - 1 - x) * size_.height;
    parts.push_back({static_cast<uint32_t>(column + top), static_cast<uint32_t>(column + bottom)});
  });
  std::ranges::sort(parts, {}, &Run::begin);
  std::vector<Run> runs;
  for (const Run& part : parts) append(runs, part.begin, part.end);
  return {size_, std::move(runs)};
}

Mask Mask::resize(ImageSize size) const {
  pixels_of(size);
  const std::vector<int64_t> columns = first_made_of(size_.width, size.width);
  const std::vector<int64_t> rows = first_made_of(size_.height, size.height);
  std::vector<Run> runs, column;  // runs of the result; those of one column, by rows
  uint32_t x = 0;
  auto write_column = [&] {
    for (int64_t to = columns[x]; to < columns[x + 1]; ++to)
      for (const Run& run : column) append(runs, to * size.height + run.begin, to * size.height + run.end);
    column.clear();
  };
  for_each_part([&](uint32_t next, uint32_t top, uint32_t bottom) {
    if (next != x) write_column();
    x = next;
    append(column, rows[top], rows[bottom]);
  });
  write_column();
  return {size, std::move(runs)};
}

Mask operator|(const Mask& a, const Mask& b) {
  check_same_size(a, b);
  std::vector<Mask::Run> all, runs;
  std::ranges::merge(a.runs_, b.runs_, std::back_inserter(all), {}, &Mask::Run::begin, &Mask::Run::begin);
  for (const Mask::Run& run : all) Mask::append(runs, run.begin, run.end);
  return {a.size_, std::move(runs)};
}

Mask operator&(const Mask& a, const Mask& b) {
  check_same_size(a, b);
  std::vector<Mask::Run> runs;
  for (auto i = a.runs_.begin(), j = b.runs_.begin(); i != a.runs_.end() && j != b.runs_.end();) {
    const uint32_t begin = std::max(i->begin, j->begin), end = std::min(i->end, j->end);
    if (begin < end) Mask::append(runs, begin, end);
    i->end <= j->end ? ++i : ++j;
  }
  return {a.size_, std::move(runs)};
}

int64_t intersection(const Mask& a, const Mask& b) {
  check_same_size(a, b);
  if (intersection(a.box_, b.box_) <= 0) return 0;
  // Only the runs in the columns that both boxes cover.
  const auto begin = static_cast<int64_t>(std::max(a.box_.x1, b.box_.x1)) * a.size_.height;
  const auto end = static_cast<int64_t>(std::min(a.box_.x2, b.box_.x2)) * a.size_.height;
  auto inside = [&](const std::vector<Mask::Run>& runs) {
    const auto first = std::ranges::upper_bound(runs, begin, {}, &Mask::Run::end);
    return std::span(first, std::ranges::lower_bound(first, runs.end(), end, {}, &Mask::Run::begin));
  };
  const std::span<const Mask::Run> of_a = inside(a.runs_), of_b = inside(b.runs_);
  int64_t common = 0;
  for (auto i = of_a.begin(), j = of_b.begin(); i != of_a.end() && j != of_b.end();) {
    const int64_t both = int64_t{std::min(i->end, j->end)} - int64_t{std::max(i->begin, j->begin)};
    common += std::max<int64_t>(both, 0);
    const bool is_over = i->end <= j->end;
    i += is_over;
    j += !is_over;
  }
  return common;
}

double iou(const Mask& detection, const Mask& object, bool crowd) {
  const int64_t common = intersection(detection, object);
  if (common == 0) return 0;
  const int64_t either = detection.area() + (crowd ? 0 : object.area() - common);
  return static_cast<double>(common) / static_cast<double>(either);
}

}  // namespace saccade
