// Parts of a set: a drawn validation split and the rest, or the first images.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

// Images of class folders have no numbers in a list: they are numbered by position.
void number_classified_images(GroundTruth& truth) {
  int64_t next = 0;
  for (ImageInfo& image : truth.images)
    if (image.category_id) image.id = next++;
}

void keep_first(GroundTruth& truth, int64_t most) {
  std::unordered_set<int64_t> kept, with_objects;
  std::map<int64_t, int64_t> seen;  // images of each class
  std::vector<std::pair<int64_t, int64_t>> turns;
  for (const ImageInfo& image : truth.images)
    if (image.category_id) turns.emplace_back(seen[*image.category_id]++, image.id);
  std::ranges::stable_sort(turns, {}, &std::pair<int64_t, int64_t>::first);
  for (const auto& [turn, id] : turns)
    if (std::ssize(kept) < most) kept.insert(id);
  for (const Annotation& a : truth.annotations)
    if (!a.iscrowd) with_objects.insert(a.image_id);
  for (const ImageInfo& image : truth.images)
    if (std::ssize(kept) < most && (with_objects.contains(image.id) || !image.label_file.empty()))
      kept.insert(image.id);
  if (kept.empty()) return;
  keep_images(truth, [&](int64_t id) { return kept.contains(id); });
  number_classified_images(truth);
}

GroundTruth drawn_part(GroundTruth truth, const DataPaths& paths) {
  const auto count = static_cast<int64_t>(truth.images.size());
  if (count < 2)
    fail_input("{}: {}, expected at least 2 to draw validation images from", paths.name(),
               count_of(count, "image", "images"));
  const auto share = std::llround(paths.val_fraction * static_cast<double>(count));
  const auto wanted = std::clamp<int64_t>(share, 1, count - 1);
  std::map<int64_t, int64_t> left;  // images of each class that stay; one must
  for (const ImageInfo& image : truth.images)
    if (image.category_id) ++left[*image.category_id];
  std::unordered_set<int64_t> ids;
  for (const ImageInfo* image : drawn_order(truth, paths.seed ^ hash_name("validation split"))) {
    if (std::ssize(ids) == wanted) break;
    if (image->category_id && left[*image->category_id] == 1) continue;
    if (image->category_id) --left[*image->category_id];
    ids.insert(image->id);
  }
  if (ids.empty())
    fail_input("{}: no class has 2 images, so none can be drawn for validation, expected data.val_fraction=0",
               paths.name());
  const bool wants_drawn = paths.part == Part::kValidation;
  keep_images(truth, [&](int64_t id) { return ids.contains(id) == wants_drawn; });
  number_classified_images(truth);
  return truth;
}

}  // namespace

std::string draw_validation(DataSplits& splits, double share, uint64_t seed) {
  if (!splits.train || splits.val || share <= 0) return "";
  splits.val = splits.train;
  splits.val->part = Part::kValidation;
  splits.train->part = Part::kTraining;
  for (auto* paths : {&*splits.train, &*splits.val}) {
    paths->val_fraction = share;
    paths->seed = seed;
  }
  return fmt::format(
      "{}: has no validation images, so {:g} % of the training images, drawn with seed {}, are used",
      splits.train->name(), 100 * share, seed);
}

std::vector<const ImageInfo*> drawn_order(const GroundTruth& truth, uint64_t key) {
  std::vector<std::pair<uint64_t, const ImageInfo*>> keys;
  for (const ImageInfo& image : truth.images)
    keys.emplace_back(mix_key(key, hash_name(image.file_name)), &image);
  std::ranges::sort(keys, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->file_name < b.second->file_name;
  });
  std::vector<const ImageInfo*> order;
  for (const auto& [at, image] : keys) order.push_back(image);
  return order;
}

GroundTruth part_of(GroundTruth truth, const DataPaths& paths) {
  if (paths.part != Part::kAll) truth = drawn_part(std::move(truth), paths);
  if (paths.most > 0) keep_first(truth, paths.most);
  return truth;
}

}  // namespace saccade
