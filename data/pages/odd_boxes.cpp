#include "data/pages/odd_boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/files/text.h"
#include "data/pages/html.h"

namespace saccade {
namespace {

constexpr double kTinySide = 4, kHugeShare = 0.95, kExtremeRatio = 10, kBorder = 0.5, kSameOverlap = 0.9;
constexpr int64_t kMaxPairs = 200'000;  // per image: all pairs of about 600 boxes in one place

enum Kind { kNoArea, kOutside, kTiny, kHuge, kExtreme, kTwice, kTwoClasses, kKinds };

// Keeps the oddest boxes.
void add(OddKind& kind, OddBox box) {
  ++kind.count;
  auto odder = [](const OddBox& a, const OddBox& b) { return a.measure > b.measure; };
  const auto at = std::upper_bound(kind.shown.begin(), kind.shown.end(), box, odder);
  if (kind.shown.size() == kShownOddBoxes && at == kind.shown.end()) return;
  kind.shown.insert(at, std::move(box));
  if (kind.shown.size() > kShownOddBoxes) kind.shown.pop_back();
}

void look_at_box(const ReportedSplit& split, ImagePlace place, size_t index, std::vector<OddKind>& kinds) {
  const ImageInfo& image = split.truth.images[place.image];
  const auto [x, y, w, h] = split.truth.annotations[index].bbox;
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  OddBox box{.place = place,
             .annotation = index,
             .what = fmt::format("{} × {} pixels", number_text(w), number_text(h))};
  auto found = [&](Kind kind, double measure) {
    box.measure = measure;
    add(kinds[kind], box);
  };
  if (w <= 0 || h <= 0) return found(kNoArea, 0);
  if (std::min(w, h) < kTinySide) found(kTiny, -std::min(w, h));
  const double ratio = std::max(w / h, h / w);
  if (ratio > kExtremeRatio) found(kExtreme, ratio);
  if (width <= 0) return;
  const double beyond = std::max({-x, -y, x + w - width, y + h - height});
  if (beyond > kBorder) {
    OddBox out = box;
    out.measure = beyond;
    const std::string pixels = number_text(beyond);
    out.what = fmt::format("{} {} beyond the border", pixels, pixels == "1" ? "pixel" : "pixels");
    add(kinds[kOutside], out);
  } else if (w * h > kHugeShare * width * height) {
    found(kHuge, w * h / (width * height));
  }
}

// Checks pairs of boxes of one image; `own` are indices in the list of annotations. Returns false
// if there were too many pairs to check all.
bool look_at_pairs(const ReportedSplit& split, ImagePlace place, std::vector<size_t>& own,
                   std::vector<OddKind>& kinds) {
  const std::vector<Annotation>& all = split.truth.annotations;
  std::ranges::stable_sort(own, {}, [&](size_t i) { return all[i].bbox[0]; });
  int64_t pairs = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    const Annotation& a = all[own[i]];
    for (size_t k = i + 1; k < own.size(); ++k) {
      const Annotation& b = all[own[k]];
      // An overlap of 0.9 requires nearly the same left edges.
      if (b.bbox[0] > a.bbox[0] + 0.1 * a.bbox[2]) break;
      if (++pairs > kMaxPairs) return false;
      const double overlap = iou(box_of_corner(a.bbox), box_of_corner(b.bbox));
      if (!(overlap > kSameOverlap)) continue;
      add(kinds[a.category_id == b.category_id ? kTwice : kTwoClasses],
          {.place = place,
           .annotation = own[i],
           .other = static_cast<ptrdiff_t>(own[k]),
           .measure = overlap,
           .what = fmt::format("IoU {:.2f}", overlap)});
    }
  }
  return true;
}

std::vector<OddKind> no_odd_boxes() {
  std::vector<OddKind> kinds(kKinds);
  auto name = [&](Kind kind, std::string title, std::string explanation) {
    kinds[kind].title = std::move(title);
    kinds[kind].explanation = std::move(explanation);
  };
  name(kNoArea, "No area", "a width or height of 0 or less; training leaves them out");
  name(kOutside, "Outside", "more than half a pixel beyond the border of their image; training cuts them");
  name(kTiny, "Tiny", fmt::format("a side of less than {} pixels", kTinySide));
  name(kHuge, "Huge", fmt::format("more than {:.0f} % of the image", 100 * kHugeShare));
  name(kExtreme, "Long and thin", fmt::format("one side more than {} times the other", kExtremeRatio));
  name(kTwice, "Nearly the same box twice",
       fmt::format("two of one class with an IoU above {}", kSameOverlap));
  name(kTwoClasses, "One box, two classes",
       fmt::format("two of different classes with an IoU above {}", kSameOverlap));
  return kinds;
}

}  // namespace

std::vector<OddKind> find_odd_boxes(const std::vector<ReportedSplit>& splits) {
  std::vector<OddKind> kinds = no_odd_boxes();
  int64_t crowded = 0;
  for (size_t s = 0; s < splits.size(); ++s) {
    const GroundTruth& truth = splits[s].truth;
    std::unordered_map<int64_t, size_t> places;
    for (size_t i = 0; i < truth.images.size(); ++i) places.emplace(truth.images[i].id, i);
    std::vector<std::vector<size_t>> of_image(truth.images.size());
    for (size_t k = 0; k < truth.annotations.size(); ++k) {
      const auto it = places.find(truth.annotations[k].image_id);
      if (it == places.end() || truth.annotations[k].iscrowd) continue;
      look_at_box(splits[s], {s, it->second}, k, kinds);
      if (truth.annotations[k].bbox[2] > 0 && truth.annotations[k].bbox[3] > 0)
        of_image[it->second].push_back(k);
    }
    for (size_t i = 0; i < of_image.size(); ++i)
      crowded += !look_at_pairs(splits[s], {s, i}, of_image[i], kinds);
  }
  if (crowded > 0)
    for (Kind kind : {kTwice, kTwoClasses})
      kinds[kind].explanation += fmt::format("; in {}, only the first {} pairs were examined",
                                             count_of(crowded, "image", "images"), kMaxPairs);
  return kinds;
}

}  // namespace saccade
