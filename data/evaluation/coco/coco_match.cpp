// Matches detections with objects: evaluateImg of cocoeval.py.
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "core/types/image_size.h"
#include "data/evaluation/coco/coco_overlap.h"
#include "data/evaluation/coco/coco_parts.h"
#include "data/formats/checks/units.h"

namespace saccade::coco {
namespace {

// Indices of elements ordered by (category, image), in file order within; elements of unknown categories are
// left out.
struct Grouped {
  std::vector<uint32_t> order;
  std::vector<uint32_t> category, image;  // of each element in `order`
};

// Returns the position of `id` in a sorted list; -1 if absent.
int64_t position(const std::vector<int64_t>& sorted, int64_t id) {
  auto it = std::lower_bound(sorted.begin(), sorted.end(), id);
  return it != sorted.end() && *it == id ? it - sorted.begin() : -1;
}

// Stable sort of `order` by key (values below `count`).
void counting_sort(std::vector<uint32_t>& order, const std::vector<uint32_t>& key, size_t count) {
  std::vector<uint32_t> begin(count + 1, 0), sorted(order.size());
  for (uint32_t i : order) ++begin[key[i] + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (uint32_t i : order) sorted[begin[key[i]]++] = i;
  order = std::move(sorted);
}

template <class Items, class OnUnknownImage>
Grouped group(const Items& items, const std::vector<int64_t>& images, const std::vector<int64_t>& categories,
              OnUnknownImage on_unknown_image) {
  std::vector<uint32_t> image(items.size()), category(items.size());
  Grouped g;
  g.order.reserve(items.size());
  int64_t last_image = 0, at = -1;  // entries of one image mostly follow each other
  for (size_t i = 0; i < items.size(); ++i) {
    if (at < 0 || items[i].image_id != last_image) at = position(images, items[i].image_id);
    last_image = items[i].image_id;
    if (at < 0) {
      on_unknown_image(i);
      continue;
    }
    int64_t c = position(categories, items[i].category_id);
    if (c < 0) continue;
    image[i] = static_cast<uint32_t>(at);
    category[i] = static_cast<uint32_t>(c);
    g.order.push_back(static_cast<uint32_t>(i));
  }
  counting_sort(g.order, image, images.size());
  counting_sort(g.order, category, categories.size());
  for (uint32_t i : g.order) {
    g.category.push_back(category[i]);
    g.image.push_back(image[i]);
  }
  return g;
}

std::vector<Cell> make_cells(const Grouped& truth, const Grouped& found) {
  std::vector<Cell> cells;
  uint32_t t = 0, f = 0;
  auto nt = static_cast<uint32_t>(truth.order.size()), nf = static_cast<uint32_t>(found.order.size());
  while (t < nt || f < nf) {
    bool use_truth = f == nf || (t < nt && std::pair(truth.category[t], truth.image[t]) <=
                                               std::pair(found.category[f], found.image[f]));
    Cell c{.category = use_truth ? truth.category[t] : found.category[f],
           .image = use_truth ? truth.image[t] : found.image[f],
           .truth_begin = t,
           .truth_end = t,
           .found_begin = f,
           .found_end = f};
    while (t < nt && truth.category[t] == c.category && truth.image[t] == c.image) ++t;
    while (f < nf && found.category[f] == c.category && found.image[f] == c.image) ++f;
    c.truth_end = t;
    c.found_end = f;
    cells.push_back(c);
  }
  return cells;
}

bool outside(double area, const AreaRange& range) { return area < range.low || area > range.high; }

// evaluateImg of cocoeval.py for one cell after another and all area ranges, with reused memory.
class CellMatcher {
 public:
  CellMatcher(const GroundTruth& truth, std::span<const Detection> detections, const Overlap& overlap,
              const Grouped& of_truth, const Grouped& of_found, size_t most, std::span<const AreaRange> areas,
              Matches& matches)
      : truth_(truth),
        detections_(detections),
        overlap_(overlap),
        of_truth_(of_truth),
        of_found_(of_found),
        most_(most),
        areas_(areas),
        matches_(matches) {}

  void run(size_t index) {
    Cell& cell = matches_.cells[index];
    objects_.clear();
    found_.clear();
    for (uint32_t k = cell.truth_begin; k < cell.truth_end; ++k)
      objects_.push_back(&truth_.annotations[of_truth_.order[k]]);
    for (uint32_t k = cell.found_begin; k < cell.found_end; ++k)
      found_.push_back(&detections_[of_found_.order[k]]);
    std::ranges::stable_sort(found_, std::ranges::greater(), &Detection::score);
    if (found_.size() > most_) found_.resize(most_);
    cell.kept = static_cast<uint32_t>(found_.size());
    Outcome* outcomes = matches_.outcomes.data() + cell.found_begin;
    matched_ = matches_.found.data() + cell.found_begin * areas_.size();
    const size_t G = objects_.size(), D = found_.size();
    overlap_.compare(found_, objects_, overlaps_);
    overlap_.areas(found_, sizes_);
    for (size_t d = 0; d < D; ++d)
      outcomes[d] = {found_[d]->score, static_cast<uint32_t>(d), cell.found_begin + static_cast<uint32_t>(d)};
    for (size_t a = 0; a < areas_.size(); ++a) {
      auto counts = [&](size_t g) { return !objects_[g]->iscrowd && !outside(objects_[g]->area, areas_[a]); };
      order_.clear();
      for (size_t g = 0; g < G; ++g)
        if (counts(g)) order_.push_back(g);
      const size_t counted = order_.size();  // those before it count, those after it are ignored
      for (size_t g = 0; g < G; ++g)
        if (!counts(g)) order_.push_back(g);
      matches_.objects[index * areas_.size() + a] += static_cast<int64_t>(counted);
      match(counted, a);
    }
  }

 private:
  void match(size_t counted, size_t area) {
    size_t G = objects_.size();
    taken_.assign(G, 0);
    for (size_t d = 0; d < found_.size(); ++d) {
      bool is_outside = outside(sizes_[d], areas_[area]);
      uint16_t hit = 0, ignored = 0;
      const double* row = overlaps_.data() + d * G;
      for (int t = 0; t < kCocoThresholds; ++t) {
        auto bit = static_cast<uint16_t>(1u << t);
        double best = std::min(thresholds().iou[t], 1 - 1e-10);
        size_t match = G;
        for (size_t k = 0; k < G; ++k) {
          size_t g = order_[k];
          if ((taken_[g] & bit) && !objects_[g]->iscrowd) continue;
          // An ignored object is only the second choice.
          if (match < counted && k >= counted) break;
          if (row[g] < best) continue;
          best = row[g];
          match = k;
        }
        if (match == G) {
          if (is_outside) ignored |= bit;
          continue;
        }
        const Annotation& g = *objects_[order_[match]];
        taken_[order_[match]] |= bit;
        if (match >= counted) ignored |= bit;
        // pycocotools stores a match by the annotation's id and therefore overlooks one with id 0.
        if (g.id != 0) {
          hit |= bit;
        } else if (is_outside) {
          ignored |= bit;
        }
      }
      matched_[d * areas_.size() + area] = {hit, ignored};
    }
  }

  const GroundTruth& truth_;
  std::span<const Detection> detections_;
  const Overlap& overlap_;
  const Grouped &of_truth_, &of_found_;
  size_t most_;  // number of detections that count
  std::span<const AreaRange> areas_;
  Matches& matches_;
  // For one cell: objects in the order of the file, and the detections that count, by descending score,
  // with their outcomes.
  std::vector<const Annotation*> objects_;
  std::vector<const Detection*> found_;
  Found* matched_ = nullptr;      // [detections, areas]
  std::vector<double> overlaps_;  // [detections, objects]
  std::vector<double> sizes_;     // areas of detections
  std::vector<size_t> order_;
  std::vector<uint16_t> taken_;
};

// "d.json: 7 of 9 entries are left out because their category_id (0, 91) is not in the annotations".
std::string unknown_categories(std::span<const Detection> detections, const std::vector<int64_t>& categories,
                               const std::string& source, size_t left_out) {
  std::set<int64_t> unknown;
  for (const Detection& d : detections)
    if (unknown.size() < 6 && position(categories, d.category_id) < 0) unknown.insert(d.category_id);
  return fmt::format("{}: {} category_id ({}) is not in the annotations", source,
                     count_among(static_cast<int64_t>(left_out), std::ssize(detections), "entries",
                                 "is left out because its", "are left out because their"),
                     fmt::join(unknown, ", "));
}

// Collects the form of the boxes, given their images' sizes; for an image of unknown size,
// the farthest extent of the objects in all images is used.
BoxUnits units_of(const GroundTruth& truth, std::span<const Detection> detections,
                  const std::vector<int64_t>& images) {
  ImageSize reached;
  const auto farther = [](int64_t side, double far) {
    return std::max(side, static_cast<int64_t>(std::min(far, 1e9)));
  };
  for (const Annotation& a : truth.annotations)
    reached = {farther(reached.height, a.bbox[1] + a.bbox[3]), farther(reached.width, a.bbox[0] + a.bbox[2])};
  std::vector<ImageSize> sizes(images.size());
  for (const ImageInfo& image : truth.images)
    sizes[static_cast<size_t>(position(images, image.id))] =
        image.width > 0 ? ImageSize{image.height, image.width} : reached;
  BoxUnits units;
  int64_t last_image = 0;
  ImageSize size;  // of the last image, whose entries mostly follow each other
  for (const Detection& d : detections) {
    if (&d == detections.data() || d.image_id != last_image) {
      size = sizes[static_cast<size_t>(position(images, d.image_id))];
      last_image = d.image_id;
    }
    units.add(d.bbox, size);
  }
  return units;
}

// Notes images with more objects of a class than detections that count, if that many were found:
// their metrics cannot be good.
void note_full_images(const Matches& matches, const std::vector<int64_t>& images, size_t most,
                      const std::string& source, std::vector<std::string>& notes) {
  int64_t full = 0;
  const Cell* first = nullptr;
  for (const Cell& c : matches.cells) {
    if (c.truth_end - c.truth_begin <= most || c.found_end - c.found_begin < most) continue;
    if (full++ == 0) first = &c;
  }
  if (first == nullptr) return;
  notes.push_back(fmt::format(
      "{}: only the best {} detections per image and class count, as in pycocotools, but image {} has {} objects of one class "
      "({} such case{}); --max-detections raises the limit",
      source, most, images[first->image], first->truth_end - first->truth_begin, full, full == 1 ? "" : "s"));
}

}  // namespace

Matches match_detections(const GroundTruth& truth, std::span<const Detection> detections,
                         const std::vector<int64_t>& images, const std::vector<int64_t>& categories,
                         const std::string& source, const MetricOptions& options,
                         std::vector<std::string>& notes) {
  for (size_t i = 0; i < detections.size(); ++i) {
    const Detection& d = detections[i];
    if (std::isnan(d.score + d.bbox[0] + d.bbox[1] + d.bbox[2] + d.bbox[3]))
      fail_input("{}: entry {} (image {}): has a NaN", source, i + 1, d.image_id);
  }
  Grouped of_truth = group(truth.annotations, images, categories, [](size_t) {});
  Grouped of_found = group(detections, images, categories, [&](size_t i) {
    const auto unknown = std::count_if(detections.begin(), detections.end(),
                                       [&](const Detection& d) { return position(images, d.image_id) < 0; });
    fail_input("{}: entry {}: image_id {} is not in the annotations ({} such an image_id)", source, i + 1,
               detections[i].image_id,
               count_among(unknown, std::ssize(detections), "entries", "has", "have"));
  });
  if (size_t left_out = detections.size() - of_found.order.size(); left_out > 0)
    notes.push_back(unknown_categories(detections, categories, source, left_out));
  const BoxUnits units = units_of(truth, detections, images);
  if (units.look_like_parts(false) && boxes_that_are_parts(truth).empty())
    notes.push_back(fmt::format("{}: the boxes {}", source, units.about_parts()));
  if (const std::string form = units.other_form(); !form.empty())
    notes.push_back(fmt::format("{}: {}", source, form));
  for (std::string& remark : remarks_on_metrics(truth)) notes.push_back(std::move(remark));
  const std::unique_ptr<Overlap> overlap =
      make_overlap(options.iou.value_or(IouType::kBoxes), truth, detections, source);

  Matches matches;
  std::vector<Cell>& cells = matches.cells = make_cells(of_truth, of_found);
  std::vector<AreaRange> areas{{.name = "all"}};
  areas.insert(areas.end(), options.areas.begin(), options.areas.end());
  const auto most = static_cast<size_t>(options.max_detections.value_or(kCocoDetections));
  matches.areas = areas.size();
  matches.outcomes.resize(of_found.order.size());
  matches.found.resize(matches.outcomes.size() * areas.size());
  matches.objects.resize(cells.size() * areas.size());
  parallel_by_work(
      cells.size(), [&](size_t i) { return cells[i].work(); },
      [&](size_t begin, size_t end) {
        CellMatcher matcher(truth, detections, *overlap, of_truth, of_found, most, areas, matches);
        for (size_t i = begin; i < end; ++i) matcher.run(i);
      });
  note_full_images(matches, images, most, source, notes);
  std::vector<size_t>& first = matches.first_cell;
  first.assign(categories.size() + 1, cells.size());
  for (size_t i = cells.size(); i-- > 0;) first[cells[i].category] = i;
  for (size_t c = categories.size(); c-- > 0;) first[c] = std::min(first[c], first[c + 1]);
  return matches;
}

}  // namespace saccade::coco
