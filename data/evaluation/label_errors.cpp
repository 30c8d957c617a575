#include "data/evaluation/label_errors.h"

#include <algorithm>
#include <memory>

#include "data/evaluation/coco/coco_overlap.h"
#include "data/evaluation/coco/coco_parts.h"

namespace saccade {
namespace {

// From this overlap on, a detection and a label, or two detections, are of the same object.
constexpr double kSameObject = 0.5;
// A detection that overlaps a label by less says nothing about the place of its object.
constexpr double kSameNeighbourhood = 0.2;
// The placement of a box is 0 up to the first overlap, and 1 from the second on.
constexpr double kBadPlace = 0.3, kGoodPlace = 0.7;

double placement(double iou) { return std::clamp((iou - kBadPlace) / (kGoodPlace - kBadPlace), 0.0, 1.0); }

struct LabelsAndFinds {
  std::vector<const Annotation*> labels, crowds;
  std::vector<const Detection*> finds;  // by descending score
  std::vector<double> overlaps;         // [finds, labels]
  double overlap(size_t find, size_t label) const { return overlaps[find * labels.size() + label]; }
  bool same_class(size_t find, size_t label) const {
    return finds[find]->category_id == labels[label]->category_id;
  }
};

std::vector<LabelsAndFinds> by_image(const GroundTruth& truth, std::span<const Detection> detections,
                                     const coco::Overlap& overlap) {
  std::unordered_map<int64_t, size_t> places;
  for (size_t i = 0; i < truth.images.size(); ++i) places.emplace(truth.images[i].id, i);
  std::vector<LabelsAndFinds> images(truth.images.size());
  for (const Annotation& a : truth.annotations)
    if (const auto it = places.find(a.image_id); it != places.end())
      (a.iscrowd ? images[it->second].crowds : images[it->second].labels).push_back(&a);
  const std::vector<int64_t> categories = coco::sorted_ids(truth.categories);
  for (const Detection& d : detections)
    if (const auto it = places.find(d.image_id);
        it != places.end() && std::ranges::binary_search(categories, d.category_id))
      images[it->second].finds.push_back(&d);
  for (LabelsAndFinds& image : images) {
    std::ranges::stable_sort(image.finds, std::ranges::greater(), &Detection::score);
    overlap.compare(image.finds, image.labels, image.overlaps);
  }
  return images;
}

// Collects the score of the best detection that matches each label.
UsualScores usual_scores(const std::vector<LabelsAndFinds>& images) {
  UsualScores usual;
  for (const LabelsAndFinds& image : images)
    for (size_t j = 0; j < image.labels.size(); ++j)
      for (size_t i = 0; i < image.finds.size(); ++i)
        if (image.same_class(i, j) && image.overlap(i, j) >= kSameObject) {
          usual.add(image.labels[j]->category_id, image.finds[i]->score);
          break;
        }
  return usual;
}

class ImageJudge {
 public:
  ImageJudge(const LabelsAndFinds& image, size_t place, const UsualScores& usual,
             const coco::Overlap& overlap)
      : image_(image), place_(place), overlap_(overlap) {
    for (size_t i = 0; i < image.finds.size(); ++i) {
      confidence_.push_back(usual.confidence(image.finds[i]->category_id, image.finds[i]->score));
      home_.push_back(home_of(i));
    }
  }

  void add_to(std::vector<LabelError>& errors, double least) const {
    std::vector<const Detection*> told;  // detections that already account for something
    for (size_t j = 0; j < image_.labels.size(); ++j) {
      const LabelError error = judge(j);
      if (error.suspicion < least) continue;
      errors.push_back(error);
      if (error.found != nullptr) told.push_back(error.found);
    }
    add_missing(errors, least, std::move(told));
  }

 private:
  // Returns a detection's label: the one of its class that it covers, or else the nearest one of any class.
  size_t home_of(size_t i) const {
    size_t own = image_.labels.size(), nearest = own;
    for (size_t j = 0; j < image_.labels.size(); ++j) {
      const double iou = image_.overlap(i, j);
      auto is_nearer = [&](size_t best) {
        return best == image_.labels.size() || iou > image_.overlap(i, best);
      };
      if (iou > 0 && is_nearer(nearest)) nearest = j;
      if (iou >= kSameObject && image_.same_class(i, j) && is_nearer(own)) own = j;
    }
    return own < image_.labels.size() ? own : nearest;
  }

  LabelError judge(size_t j) const {
    double support = 0, of_any_class = 0;
    size_t other_class = image_.finds.size(), other_box = other_class;
    auto confidence = [&](size_t i) { return i < confidence_.size() ? confidence_[i] : 0; };
    for (size_t i = 0; i < image_.finds.size(); ++i) {
      const double iou = image_.overlap(i, j), agrees = confidence_[i] * placement(iou);
      const bool same = image_.same_class(i, j);
      of_any_class = std::max(of_any_class, agrees);
      if (same) support = std::max(support, agrees);
      if (home_[i] != j) continue;
      if (!same && iou >= kSameObject && confidence_[i] > confidence(other_class)) other_class = i;
      if (same && iou >= kSameNeighbourhood && confidence_[i] > confidence(other_box)) other_box = i;
    }
    LabelError error{.image = place_, .label = image_.labels[j]};
    auto consider = [&](LabelErrorKind kind, double suspicion, size_t i) {
      if (suspicion <= error.suspicion) return;
      error.kind = kind;
      error.suspicion = suspicion;
      error.found = i < image_.finds.size() ? image_.finds[i] : nullptr;
      error.iou = i < image_.finds.size() ? image_.overlap(i, j) : 0;
    };
    const double suggested = std::max(confidence(other_class), confidence(other_box));
    consider(LabelErrorKind::kWrongClass, confidence(other_class) * (1 - support), other_class);
    consider(LabelErrorKind::kWrongBox, confidence(other_box) * (1 - support), other_box);
    consider(LabelErrorKind::kNotFound, (1 - of_any_class) * (1 - suggested), image_.finds.size());
    return error;
  }

  // Adds only the best of several detections of one object.
  void add_missing(std::vector<LabelError>& errors, double least, std::vector<const Detection*> told) const {
    std::vector<double> in_crowds;
    overlap_.compare(image_.finds, image_.crowds, in_crowds);
    for (size_t i = 0; i < image_.finds.size(); ++i) {
      const double iou = home_[i] < image_.labels.size() ? image_.overlap(i, home_[i]) : 0;
      const double suspicion = confidence_[i] * (1 - placement(iou));
      if (iou >= kSameObject || suspicion < least) continue;
      const auto shares = std::span(in_crowds).subspan(i * image_.crowds.size(), image_.crowds.size());
      if (std::ranges::any_of(shares, [](double share) { return share >= 0.5; })) continue;
      const Box box = box_of_corner(image_.finds[i]->bbox);
      if (std::ranges::any_of(told, [&](const Detection* other) {
            return saccade::iou(box_of_corner(other->bbox), box) >= kSameObject;
          }))
        continue;
      told.push_back(image_.finds[i]);
      errors.push_back({.kind = LabelErrorKind::kMissing,
                        .suspicion = suspicion,
                        .image = place_,
                        .found = image_.finds[i],
                        .iou = iou});
    }
  }

  const LabelsAndFinds& image_;
  size_t place_;
  const coco::Overlap& overlap_;
  std::vector<double> confidence_;  // of the detections
  std::vector<size_t> home_;        // likewise, the label; the number of labels if there is none
};

}  // namespace

void UsualScores::add(int64_t class_id, double score) {
  for (Mean* mean : {&of_class_[class_id], &all_}) {
    mean->sum += score;
    ++mean->count;
  }
}

double UsualScores::confidence(int64_t class_id, double score) const {
  const auto it = of_class_.find(class_id);
  const Mean& usual = it == of_class_.end() ? all_ : it->second;
  return std::clamp(usual.sum > 0 ? score * usual.count / usual.sum : score, 0.0, 1.0);
}

namespace {

constexpr std::pair<const char*, const char*> kWords[] = {
    {"missing", "Missing: the model finds an object that has no label"},
    {"wrong_class", "Wrong class: the model finds another class"},
    {"wrong_box", "Wrong box: the model finds another position or size"},
    {"not_found", "Not found: the model finds nothing at the label"}};

}  // namespace

const char* word_of(LabelErrorKind kind) { return kWords[static_cast<size_t>(kind)].first; }
const char* title_of(LabelErrorKind kind) { return kWords[static_cast<size_t>(kind)].second; }

std::vector<LabelError> find_label_errors(const GroundTruth& truth, std::span<const Detection> detections,
                                          double least_suspicion) {
  const std::unique_ptr<coco::Overlap> overlap =
      coco::make_overlap(IouType::kBoxes, truth, detections, "detections");
  const std::vector<LabelsAndFinds> images = by_image(truth, detections, *overlap);
  const UsualScores usual = usual_scores(images);
  std::vector<LabelError> errors;
  for (size_t i = 0; i < images.size(); ++i)
    ImageJudge(images[i], i, usual, *overlap).add_to(errors, least_suspicion);
  std::ranges::stable_sort(errors, std::ranges::greater(), &LabelError::suspicion);
  return errors;
}

}  // namespace saccade
