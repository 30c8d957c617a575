#include "data/evaluation/coco/coco_overlap.h"

#include <algorithm>
#include <unordered_map>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/checks/mask_check.h"

namespace saccade::coco {
namespace {

// bbIou of maskApi.c for boxes [x, y, width, height].
double overlap(const std::array<double, 4>& d, const std::array<double, 4>& g, bool crowd) {
  double w = std::min(d[2] + d[0], g[2] + g[0]) - std::max(d[0], g[0]);
  if (w <= 0) return 0;
  double h = std::min(d[3] + d[1], g[3] + g[1]) - std::max(d[1], g[1]);
  if (h <= 0) return 0;
  double both = w * h, area = d[2] * d[3];
  double either = crowd ? area : area + g[2] * g[3] - both;
  return both / either;
}

std::unordered_map<int64_t, ImageSize> sizes_of(const GroundTruth& truth) {
  std::unordered_map<int64_t, ImageSize> sizes;
  for (const ImageInfo& image : truth.images) sizes.emplace(image.id, ImageSize{image.height, image.width});
  return sizes;
}

// The mask of a crowd without one.
Mask mask_of_box(const Annotation& a, ImageSize size) {
  return Mask::from_box(size, {a.bbox[0], a.bbox[1], a.bbox[0] + a.bbox[2], a.bbox[1] + a.bbox[3]});
}

[[noreturn]] void fail_at(size_t i, std::span<const Detection> detections, const std::string& source,
                          const std::string& what) {
  fail_input("{}: entry {} (image {}): {}", source, i + 1, detections[i].image_id, what);
}

constexpr const char* kMakeCrowds = "saccade data check --masks --fix OUT makes such objects crowds";

struct LackingMasks {
  int64_t objects = 0, all = 0;  // without crowds
  int64_t crowds = 0;
  std::string first;  // of the objects without a mask
};

// Throws for masks that cannot be compared. may_be_empty: a mask without pixels counts as one.
LackingMasks check_mask_sizes(const GroundTruth& truth, const std::string& name, bool may_be_empty) {
  const auto images = truth.images_by_id();
  LackingMasks lacking;
  for (const Annotation& a : truth.annotations) {
    const auto image = images.find(a.image_id);
    if (image == images.end()) continue;
    lacking.all += !a.iscrowd;
    auto fail = [&](const std::string& what) { fail_input("{}: {}", truth.where(a, name, true), what); };
    const ImageSize size{image->second->height, image->second->width};
    const bool is_lacking =
        !a.segmentation || (!may_be_empty && !a.iscrowd && has_no_pixel(*a.segmentation, size));
    if (is_lacking && !a.iscrowd && ++lacking.objects == 1)
      lacking.first = fmt::format("{} has no mask", place_of_mask(truth, a, *image->second, name));
    if (size == ImageSize{}) fail("its image has no width and height, which masks need");
    try {
      if (a.segmentation)
        a.segmentation->check(size);
      else if (a.iscrowd)
        mask_of_box(a, size), ++lacking.crowds;
    } catch (const InputError& error) {
      fail(error.what());
    }
  }
  return lacking;
}

std::string crowds_without_masks(int64_t count) {
  return count_of(count, "crowd", "crowds") + " without a mask";
}

class BoxOverlap final : public Overlap {
 public:
  void compare(std::span<const Detection* const> found, std::span<const Annotation* const> objects,
               std::vector<double>& out) const override {
    out.resize(found.size() * objects.size());
    double* to = out.data();
    for (const Detection* d : found)
      for (const Annotation* g : objects) *to++ = overlap(d->bbox, g->bbox, g->iscrowd);
  }
  void areas(std::span<const Detection* const> found, std::vector<double>& out) const override {
    out.clear();
    for (const Detection* d : found)
      out.push_back(d->has_mask_area ? static_cast<double>(d->mask->area()) : d->bbox[2] * d->bbox[3]);
  }
};

class MaskOverlap final : public Overlap {
 public:
  MaskOverlap(const GroundTruth& truth, std::span<const Detection> detections, const std::string& source)
      : sizes_(sizes_of(truth)) {
    need_masks(truth, "annotations");
    need_masks(detections, source);
    for (size_t i = 0; i < detections.size(); ++i) {
      const Detection& d = detections[i];
      const auto it = sizes_.find(d.image_id);
      if (it != sizes_.end() && d.mask->size() != it->second)
        fail_at(i, detections, source,
                fmt::format("mask: it is {} x {}, but its image is {} x {}", d.mask->size().width,
                            d.mask->size().height, it->second.width, it->second.height));
    }
  }

  void compare(std::span<const Detection* const> found, std::span<const Annotation* const> objects,
               std::vector<double>& out) const override {
    out.resize(found.size() * objects.size());
    for (size_t g = 0; g < objects.size() && !found.empty(); ++g) {
      const Segmentation* segmentation = objects[g]->segmentation.get();
      const bool is_drawn = !segmentation || !segmentation->polygons.empty();
      Mask drawn;
      if (is_drawn) {
        const ImageSize size = sizes_.at(objects[g]->image_id);
        drawn = segmentation ? segmentation->mask(size) : mask_of_box(*objects[g], size);
      }
      const Mask& object = is_drawn ? drawn : segmentation->runs;
      for (size_t d = 0; d < found.size(); ++d)
        out[d * objects.size() + g] = iou(*found[d]->mask, object, objects[g]->iscrowd);
    }
  }
  void areas(std::span<const Detection* const> found, std::vector<double>& out) const override {
    out.clear();
    for (const Detection* d : found) out.push_back(static_cast<double>(d->mask->area()));
  }

 private:
  std::unordered_map<int64_t, ImageSize> sizes_;
};

}  // namespace

std::string need_masks(const GroundTruth& truth, const std::string& name) {
  const LackingMasks lacking = check_mask_sizes(truth, name, true);
  if (lacking.objects > 0)
    fail_input("{}; expected one for every object, as masks are evaluated ({})", lacking.first, kMakeCrowds);
  if (lacking.crowds == 0) return {};
  return crowds_without_masks(lacking.crowds);
}

std::vector<std::string> notes_on_masks_to_learn(const GroundTruth& truth, const std::string& name) {
  const LackingMasks lacking = check_mask_sizes(truth, name, false);
  std::vector<std::string> notes;
  if (lacking.objects > 0 && lacking.objects == lacking.all)
    fail_input("{}, nor has any other object; expected masks, which the model learns", lacking.first);
  if (lacking.objects > 0)
    notes.push_back(fmt::format(
        "note: {}{}; from objects without one the model learns only boxes and classes ({})", lacking.first,
        lacking.objects == 1
            ? ""
            : fmt::format(", nor have {} of the {} others", lacking.objects - 1, lacking.all - 1),
        kMakeCrowds));
  if (lacking.crowds > 0)
    notes.push_back(
        fmt::format("note: {}: {}, left out like all crowds", name, crowds_without_masks(lacking.crowds)));
  return notes;
}

void need_masks(std::span<const Detection> detections, const std::string& source) {
  for (size_t i = 0; i < detections.size(); ++i)
    if (detections[i].mask == nullptr)
      fail_at(i, detections, source, "has no segmentation, expected one, as masks are evaluated");
}

std::unique_ptr<Overlap> make_overlap(IouType type, const GroundTruth& truth,
                                      std::span<const Detection> detections, const std::string& source) {
  if (type == IouType::kMasks) return std::make_unique<MaskOverlap>(truth, detections, source);
  return std::make_unique<BoxOverlap>();
}

}  // namespace saccade::coco
