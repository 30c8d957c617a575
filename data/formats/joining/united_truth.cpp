#include "data/formats/joining/united_truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/label_maps/label_values.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

// Unique ids; if any id of a list is already used, all of the list get numbers after all others.
class FreshIds {
 public:
  // `ids` may repeat; equal ones get the same new id.
  std::unordered_map<int64_t, int64_t> add(const std::vector<int64_t>& ids, const std::string& of) {
    const bool clashes = std::ranges::any_of(ids, [&](int64_t id) { return used_.contains(id); });
    if (clashes && last_ > std::numeric_limits<int64_t>::max() - std::ssize(ids))
      fail_input("{}: the id {} of another data set leaves no numbers for its own ids", of, last_);
    std::unordered_map<int64_t, int64_t> numbers;
    int64_t next = last_;
    for (const int64_t id : ids)
      if (const auto [it, is_new] = numbers.try_emplace(id, id); is_new && clashes) it->second = ++next;
    for (const auto& [old, number] : numbers) {
      used_.insert(number);
      last_ = std::max(last_, number);
    }
    return numbers;
  }

 private:
  std::unordered_set<int64_t> used_;
  int64_t last_ = 0;
};

// Returns the numbered classes of all parts.
std::vector<Category> number_all(const std::vector<SetPart>& parts, const std::vector<std::string>& order,
                                 std::vector<std::string>& notes) {
  struct Entry {
    std::string name;
    std::optional<int64_t> id;
    const SetPart* part;
  };
  std::vector<Entry> entries;
  for (const SetPart& part : parts)
    for (const Category& c : part.truth.categories)
      entries.push_back({c.name, part.has_ids ? std::optional(c.id) : std::nullopt, &part});
  if (std::ranges::none_of(entries, [](const Entry& e) { return e.id.has_value(); }))
    std::ranges::stable_sort(entries, {}, [&](const Entry& e) { return std::ranges::find(order, e.name); });
  std::vector<Category> categories;
  std::map<std::string, int64_t> ids;
  std::map<const SetPart*, std::vector<std::string>> changed;
  int64_t last = 0, greatest = 0;  // of assigned ids; of the lists' ids
  for (const Entry& e : entries) greatest = std::max(greatest, e.id.value_or(0));
  std::unordered_set<int64_t> used;
  for (const Entry& e : entries) {
    const auto [it, is_new] = ids.try_emplace(e.name, 0);
    if (is_new) {
      // A used id is replaced by one after those of all lists, so that it takes none of another class.
      const int64_t behind = e.id ? std::max(last, greatest) : last;
      const bool keeps_id = e.id && !used.contains(*e.id);
      if (!keeps_id && behind == std::numeric_limits<int64_t>::max())
        fail_input("{}: the category id {} leaves no number for \"{}\"", e.part->name, behind,
                   printable(e.name));
      it->second = keeps_id ? *e.id : behind + 1;
      used.insert(it->second);
      last = std::max(last, it->second);
      categories.push_back({it->second, e.name});
    }
    if (e.id && *e.id != it->second)
      changed[e.part].push_back(fmt::format("\"{}\" from {} to {}", printable(e.name), *e.id, it->second));
  }
  for (const SetPart& part : parts)
    if (const auto it = changed.find(&part); it != changed.end())
      notes.push_back(fmt::format("{}: {}, {}{}", part.name,
                                  count_among(std::ssize(it->second), std::ssize(part.truth.categories),
                                              "category ids", "changes", "change"),
                                  it->second.front(), it->second.size() == 1 ? "" : ", ..."));
  return categories;
}

// Appends the parts to one list.
class Union {
 public:
  Union(const UnionOptions& options, std::vector<Category> categories, bool is_one,
        const ProblemReport& report)
      : options_(options), ids_(ids_by_name(categories)), is_one_(is_one), report_(report) {
    all_.categories = std::move(categories);
  }

  void add(SetPart& part) {
    GroundTruth& truth = part.truth;
    if (!is_one_) check_ids(truth, part.name, report_);
    add_places(part);
    for (const std::string& note : truth.notes)
      all_.notes.push_back(is_one_ ? note : fmt::format("{}: {}", part.name, note));
    all_.is_annotated = all_.is_annotated && truth.is_annotated;
    all_.faulty_masks += truth.faulty_masks;
    all_.left_out.images += truth.left_out.images;
    all_.left_out.categories += truth.left_out.categories;
    all_.left_out.boxes_of_images += truth.left_out.boxes_of_images;
    all_.left_out.boxes_of_unknown += truth.left_out.boxes_of_unknown;
    all_.box_form = is_first_ || all_.box_form == truth.box_form ? truth.box_form : BoxForm::kOther;
    is_first_ = false;
    const auto categories = known_categories(part);
    remap_labels(truth, categories);
    if (truth.drawn_labels) all_.drawn_labels = truth.drawn_labels;
    add_images(part);
    std::vector<int64_t> ids;
    for (const Annotation& a : truth.annotations) ids.push_back(a.id);
    const auto numbers = annotations_.add(ids, part.name);
    std::unordered_set<int64_t> own;
    for (Annotation& a : truth.annotations) {
      const auto image = images_.find(a.image_id);
      const auto category = categories.find(a.category_id);
      if (category == categories.end() || (image == images_.end() && !is_one_)) continue;
      if (image != images_.end()) a.image_id = image->second;
      a.category_id = category->second;
      if (!is_one_ && !own.insert(a.id).second) continue;  // check_ids has reported it
      a.id = numbers.at(a.id);
      all_.annotations.push_back(a);
    }
  }

  GroundTruth take() {
    if (shared_ > 0)
      all_.notes.push_back(fmt::format("{} each time, for example {}",
                                       count_of(shared_, "image is in several of the data sets and counts",
                                                "images are in several of the data sets and count"),
                                       first_shared_));
    return std::move(all_);
  }

 private:
  // Adds the records' places; with several lists, also for records with ids, since these may change.
  void add_places(SetPart& part) {
    GroundTruth& truth = part.truth;
    const auto before = static_cast<uint32_t>(all_.files.size());
    all_.files.insert(all_.files.end(), truth.files.begin(), truth.files.end());
    const auto add = [&](auto& records, const char* unit) {
      Place own;
      for (auto& record : records) {
        if (record.place.file > 0) {
          record.place.file += before;
        } else if (!is_one_) {
          if (own.file == 0) own = all_.add_file(part.name, unit);
          record.place = {own.file, record.id};
        }
      }
    };
    add(truth.images, "image");
    add(truth.annotations, "annotation");
  }

  void add_images(SetPart& part) {
    images_.clear();
    std::optional<NamedFolder> inside;
    if (!is_one_ && !part.images.empty() && !part.allow_outside) inside.emplace(part.images);
    const std::string below = is_one_ ? "" : name_below(part.images, options_.images);
    std::vector<int64_t> ids;
    for (const ImageInfo& image : part.truth.images) ids.push_back(image.id);
    const auto numbers = image_ids_.add(ids, part.name);
    std::unordered_set<std::string> own;
    for (ImageInfo& image : part.truth.images) {
      if (inside)
        if (const std::string refusal = inside->refusal(image.file_name); !refusal.empty()) {
          report_(fmt::format("{}: {} ({}); --allow-outside or data.allow_outside allows it",
                              joined(part.images, image.file_name), refusal, all_.text_of(image.place)));
          continue;
        }
      const auto [it, is_new] = images_.try_emplace(image.id, numbers.at(image.id));
      if (!is_new && !is_one_) continue;  // check_ids has reported it
      image.id = it->second;
      if (!below.empty() && below != ".") image.file_name = joined(below, image.file_name);
      if (!image.word.empty() && !words_.insert(image.word).second) image.word.clear();
      const std::string place = real_.of(joined(options_.images, image.file_name));
      if (own.insert(place).second && !places_.insert(place).second && shared_++ == 0)
        first_shared_ = image.file_name;
      all_.images.push_back(std::move(image));
    }
  }

  // Maps the ids of the part to those of the union.
  std::unordered_map<int64_t, int64_t> known_categories(const SetPart& part) {
    std::unordered_map<int64_t, int64_t> known, boxes;
    for (const Annotation& a : part.truth.annotations) ++boxes[a.category_id];
    for (const Category& c : part.truth.categories)
      if (const auto it = ids_.find(c.name); it != ids_.end())
        known.emplace(c.id, it->second);
      else if (boxes.contains(c.id))
        report_(fmt::format("{}: {} the unknown class \"{}\", {}", part.name,
                            count_of(boxes.at(c.id), "box has", "boxes have"), c.name, known_classes(ids_)));
    return known;
  }

  const UnionOptions& options_;
  std::map<std::string, int64_t> ids_;
  bool is_one_, is_first_ = true;
  const ProblemReport& report_;
  GroundTruth all_;
  FreshIds image_ids_, annotations_;
  std::unordered_map<int64_t, int64_t> images_;  // ids of the part to those of the union
  RealPaths real_;
  std::unordered_set<std::string> places_, words_;
  int64_t shared_ = 0;
  std::string first_shared_;
};

}  // namespace

GroundTruth unite(std::vector<SetPart> parts, const UnionOptions& options, const ProblemReport& report) {
  std::vector<std::string> notes;
  Union all(options, options.known.empty() ? number_all(parts, options.order, notes) : options.known,
            parts.size() == 1, report);
  for (SetPart& part : parts) all.add(part);
  GroundTruth truth = all.take();
  truth.notes.insert(truth.notes.end(), notes.begin(), notes.end());
  return truth;
}

}  // namespace saccade
