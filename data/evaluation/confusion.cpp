#include "data/evaluation/confusion.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "data/evaluation/coco/coco_overlap.h"
#include "data/evaluation/coco/coco_parts.h"

namespace saccade {
namespace {

struct Pair {
  double overlap, score;
  size_t found, object;  // indices in the lists of the image
};

struct ImageLists {
  std::vector<const Annotation*> objects, crowds;
  std::vector<const Detection*> found;
};

// Returns the index of each detection's object, or the number of objects if it has none.
std::vector<size_t> pair_up(const ImageLists& lists, const coco::Overlap& overlap, double min_iou) {
  std::vector<Pair> pairs;
  std::vector<double> overlaps;
  overlap.compare(lists.found, lists.objects, overlaps);
  for (size_t d = 0; d < lists.found.size(); ++d)
    for (size_t g = 0; g < lists.objects.size(); ++g)
      if (const double iou = overlaps[d * lists.objects.size() + g]; iou >= min_iou)
        pairs.push_back({iou, lists.found[d]->score, d, g});
  std::ranges::stable_sort(pairs, [](const Pair& a, const Pair& b) {
    return std::tie(a.overlap, a.score) > std::tie(b.overlap, b.score);
  });
  std::vector<size_t> object_of(lists.found.size(), lists.objects.size());
  std::vector<bool> taken(lists.objects.size());
  for (const Pair& p : pairs) {
    if (taken[p.object] || object_of[p.found] != lists.objects.size()) continue;
    taken[p.object] = true;
    object_of[p.found] = p.object;
  }
  return object_of;
}

}  // namespace

ConfusionMatrix confusion_matrix(const GroundTruth& truth, std::span<const Detection> detections,
                                 double threshold, double min_iou, std::vector<ImageOutcome>* images,
                                 IouType iou) {
  const std::vector<int64_t> categories = coco::sorted_ids(truth.categories);
  auto class_of = [&](int64_t id) {
    const auto at = std::ranges::lower_bound(categories, id);
    return at != categories.end() && *at == id ? static_cast<size_t>(at - categories.begin())
                                               : categories.size();
  };
  const size_t background = categories.size();
  ConfusionMatrix matrix;
  for (int64_t id : categories)
    matrix.names.push_back(
        std::ranges::find_if(truth.categories, [&](const Category& c) { return c.id == id; })->name);
  matrix.counts.assign(background + 1, std::vector<int64_t>(background + 1, 0));
  std::unordered_map<int64_t, size_t> places;
  for (size_t i = 0; i < truth.images.size(); ++i) places.emplace(truth.images[i].id, i);
  std::vector<ImageLists> lists(truth.images.size());
  for (const Annotation& a : truth.annotations)
    if (const auto it = places.find(a.image_id); it != places.end() && class_of(a.category_id) != background)
      (a.iscrowd ? lists[it->second].crowds : lists[it->second].objects).push_back(&a);
  for (const Detection& d : detections)
    if (const auto it = places.find(d.image_id);
        it != places.end() && d.score >= threshold && class_of(d.category_id) != background)
      lists[it->second].found.push_back(&d);
  if (images != nullptr) images->clear();
  const std::unique_ptr<coco::Overlap> overlap = coco::make_overlap(iou, truth, detections, "detections");
  std::vector<double> in_crowds;  // [found, crowds]
  for (size_t i = 0; i < lists.size(); ++i) {
    const ImageLists& own = lists[i];
    ImageOutcome outcome{.image_id = truth.images[i].id};
    const std::vector<size_t> object_of = pair_up(own, *overlap, min_iou);
    overlap->compare(own.found, own.crowds, in_crowds);
    outcome.missed = std::ssize(own.objects);
    std::vector<bool> is_found(own.objects.size());
    for (size_t d = 0; d < own.found.size(); ++d) {
      const size_t predicted = class_of(own.found[d]->category_id), g = object_of[d];
      if (g == own.objects.size()) {
        const auto shares = std::span(in_crowds).subspan(d * own.crowds.size(), own.crowds.size());
        if (std::ranges::any_of(shares, [](double share) { return share >= 0.5; })) continue;
        ++matrix.counts[background][predicted];
        ++outcome.invented;
        continue;
      }
      const size_t actual = class_of(own.objects[g]->category_id);
      ++matrix.counts[actual][predicted];
      ++(actual == predicted ? outcome.right : outcome.confused);
      --outcome.missed;
      is_found[g] = true;
    }
    for (size_t g = 0; g < own.objects.size(); ++g)
      if (!is_found[g]) ++matrix.counts[class_of(own.objects[g]->category_id)][background];
    if (images != nullptr) images->push_back(outcome);
  }
  return matrix;
}

}  // namespace saccade
