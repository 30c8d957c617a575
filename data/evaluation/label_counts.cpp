#include "data/evaluation/label_counts.h"

#include <cstring>

#include "core/tensor/error.h"
#include "core/types/label_map.h"

namespace saccade {

LabelCounts::LabelCounts(int64_t classes) : classes_(classes) {
  if (classes > kMaxClasses) fail_input("{} classes of pixels, expected at most {}", classes, kMaxClasses);
  counts_.resize(static_cast<size_t>(classes * classes));
}

void LabelCounts::add(std::span<const uint16_t> found, std::span<const uint16_t> truth) {
  SACCADE_CHECK(found.size() == truth.size(), "[label_counts] {} and {} pixels", found.size(), truth.size());
  for (size_t i = 0; i < truth.size(); ++i) {
    if (truth[i] == LabelMap::kIgnored) continue;
    SACCADE_CHECK(truth[i] < classes_ && found[i] < classes_, "[label_counts] label {} taken for {} of {}",
                  truth[i], found[i], classes_);
    ++counts_[truth[i] * static_cast<size_t>(classes_) + found[i]];
  }
}

std::string LabelCounts::state() const {
  std::string bytes;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const int64_t entry[] = {static_cast<int64_t>(i), counts_[i]};
    bytes.append(reinterpret_cast<const char*>(entry), sizeof(entry));
  }
  return bytes;
}

void LabelCounts::merge(std::string_view state) {
  int64_t entry[2];
  for (; state.size() >= sizeof(entry); state.remove_prefix(sizeof(entry))) {
    std::memcpy(entry, state.data(), sizeof(entry));
    counts_.at(static_cast<size_t>(entry[0])) += entry[1];
  }
}

std::vector<std::vector<int64_t>> LabelCounts::matrix() const {
  std::vector<std::vector<int64_t>> rows;
  for (int64_t t = 0; t < classes_; ++t)
    rows.emplace_back(counts_.begin() + t * classes_, counts_.begin() + (t + 1) * classes_);
  return rows;
}

std::optional<double> LabelCounts::OfClass::iou() const {
  const int64_t all = pixels + found - hits;
  if (all == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(all);
}

std::optional<double> LabelCounts::OfClass::accuracy() const {
  if (pixels == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(pixels);
}

std::vector<LabelCounts::OfClass> LabelCounts::of_classes() const {
  std::vector<OfClass> all(static_cast<size_t>(classes_));
  for (int64_t t = 0; t < classes_; ++t)
    for (int64_t f = 0; f < classes_; ++f) {
      const int64_t n = count(t, f);
      all[static_cast<size_t>(t)].pixels += n;
      all[static_cast<size_t>(f)].found += n;
      if (t == f) all[static_cast<size_t>(t)].hits += n;
    }
  return all;
}

LabelCounts::Means LabelCounts::means() const {
  Means means;
  int64_t hits = 0, with_accuracy = 0;
  for (const OfClass& c : of_classes()) {
    means.pixels += c.pixels;
    hits += c.hits;
    if (const auto iou = c.iou()) means.iou += *iou, ++means.classes;
    if (const auto accuracy = c.accuracy()) means.accuracy += *accuracy, ++with_accuracy;
  }
  if (means.pixels == 0) return {};
  means.iou /= static_cast<double>(means.classes);
  means.accuracy /= static_cast<double>(with_accuracy);
  means.pixel_accuracy = static_cast<double>(hits) / static_cast<double>(means.pixels);
  return means;
}

}  // namespace saccade
