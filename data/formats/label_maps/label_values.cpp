#include "data/formats/label_maps/label_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"

namespace saccade {
namespace {

// Maps each element of `from`; a run of equal ones needs one look-up.
template <class From, class Of>
void translate(const std::vector<From>& from, std::vector<uint32_t>& to, Of of) {
  to.resize(from.size());
  uint32_t last = 0, value = 0;
  bool is_known = false;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!is_known || from[i] != last) value = of(last = from[i]), is_known = true;
    to[i] = value;
  }
}

}  // namespace

CountedValues read_label_values(const std::string& path, bool are_colors) {
  const StoredPixels stored = read_stored_pixels(path);
  CountedValues read{.size = stored.size};
  if (!stored.colors.empty()) {
    // Accepts a grey image that was saved with three equal channels.
    if (!are_colors)
      for (uint32_t c : stored.colors)
        if ((c >> 16) != (c & 255) || (c >> 8 & 255) != (c & 255))
          fail_input(
              "{}: has colours (#{:06x}), but no list gives their classes; expected numbers or a palette, or a labelmap.txt",
              path, c);
    translate(stored.colors, read.values, [&](uint32_t c) { return are_colors ? c : c & 255; });
  } else if (are_colors) {
    if (stored.palette.empty() && stored.bits == 16)
      fail_input("{}: has 16-bit values, expected the colours of the labelmap.txt", path);
    const uint32_t most = (1U << stored.bits) - 1;
    translate(stored.values, read.values, [&](uint32_t v) {
      if (stored.palette.empty()) return v * 255 / most * 0x010101U;
      if (v >= stored.palette.size())
        fail_input("{}: damaged image (a pixel has colour {}, but the palette has {})", path, v,
                   stored.palette.size());
      return stored.palette[v];
    });
  } else {
    read.values.assign(stored.values.begin(), stored.values.end());
  }
  uint32_t last = 0;
  int64_t* count = nullptr;
  for (uint32_t v : read.values) {
    if (count == nullptr || v != last) count = &read.counts[last = v];
    ++*count;
  }
  return read;
}

std::string value_text(uint32_t value, bool is_color) {
  return is_color ? fmt::format("#{:06x}", value) : std::to_string(value);
}

std::string unknown_values(const std::string& path, const std::map<uint32_t, int64_t>& counts,
                           const LabelValues& values) {
  constexpr size_t kNamed = 5;
  std::string names;
  size_t unknown = 0;
  int64_t pixels = 0;
  for (const auto& [value, count] : counts) {
    if (values.categories.contains(value) || std::ranges::find(values.ignored, value) != values.ignored.end())
      continue;
    if (++unknown <= kNamed) names += (unknown == 1 ? "" : ", ") + value_text(value, values.are_colors);
    pixels += count;
  }
  if (unknown == 0) return "";
  const char* kind = values.are_colors ? "colour" : "value";
  return fmt::format("{}: {} the {}{} {}{}, which {} neither a class of the list nor ignored", path,
                     count_of(pixels, "pixel has", "pixels have"), kind, unknown == 1 ? "" : "s", names,
                     unknown > kNamed ? ", ..." : "", unknown == 1 ? "is" : "are");
}

LabelMap read_label_map(const std::string& path, ImageSize size, const LabelValues& values,
                        const std::function<int64_t(int64_t category)>& label_of) {
  const CountedValues read = read_label_values(path, values.are_colors);
  if (read.size != size)
    fail_input("{}: has {} x {} pixels, but its image has {} x {}", path, read.size.width, read.size.height,
               size.width, size.height);
  if (const std::string unknown = unknown_values(path, read.counts, values); !unknown.empty())
    fail_input("{}", unknown);
  std::unordered_map<uint32_t, uint16_t> labels;
  for (const auto& [value, count] : read.counts) {
    const auto it = values.categories.find(value);
    labels.emplace(value, it == values.categories.end() ? LabelMap::kIgnored
                                                        : static_cast<uint16_t>(label_of(it->second)));
  }
  LabelMap map(size);
  uint32_t last = 0;
  uint16_t label = LabelMap::kIgnored;
  for (size_t i = 0; i < read.values.size(); ++i) {
    if (i == 0 || read.values[i] != last) label = labels.at(last = read.values[i]);
    map.values[i] = label;
  }
  return map;
}

void draw_labels(GroundTruth& truth, const DataPaths& paths, const ProblemReport& report) {
  const auto has_none = [](const Annotation& a) { return a.segmentation == nullptr; };
  const int64_t all = std::ssize(truth.annotations),
                lacking = std::ranges::count_if(truth.annotations, has_none) - truth.faulty_masks;
  if (lacking > 0) {
    const auto first = std::ranges::find_if(truth.annotations, has_none);
    const std::string where = truth.where(*first, paths.annotations, true);
    if (lacking == all)
      report(fmt::format(
          "{}: has no segmentation, nor has any other object, expected masks to draw label maps from",
          where));
    truth.notes.push_back(
        fmt::format("{} no mask, for example {}; pixels in such a box that no mask covers have no class",
                    count_among(lacking, all, "objects", "has", "have"), truth.name_of(*first)));
  }
  truth.drawn_labels.emplace();
  const std::string& name = paths.label_maps.background;
  if (name.empty()) return;
  const auto is_called = [&](const Category& c) { return c.name == name; };
  const auto own = std::ranges::find_if(truth.categories, is_called);
  if (own != truth.categories.end()) {
    truth.drawn_labels->background = own->id;
    return;
  }
  int64_t id = 0;
  if (const auto known = std::ranges::find_if(paths.categories, is_called); known != paths.categories.end())
    id = known->id;
  else if (std::ranges::find(truth.categories, id, &Category::id) != truth.categories.end())
    id = std::ranges::max(truth.categories, {}, &Category::id).id + 1;
  truth.drawn_labels->background = id;
  truth.categories.push_back({id, name});
}

void remap_labels(GroundTruth& truth, const std::unordered_map<int64_t, int64_t>& kept) {
  std::map<const LabelValues*, std::shared_ptr<const LabelValues>> mapped;
  for (ImageInfo& image : truth.images) {
    if (!image.label_values) continue;
    std::shared_ptr<const LabelValues>& own = mapped[image.label_values.get()];
    if (!own) {
      LabelValues values = *image.label_values;
      for (auto& [value, category] : values.categories) {
        const auto it = kept.find(category);
        if (it == kept.end())
          values.ignored.push_back(value);
        else
          category = it->second;
      }
      std::erase_if(values.categories, [&](const auto& v) {
        return !kept.contains(image.label_values->categories.at(v.first));
      });
      own = std::make_shared<const LabelValues>(std::move(values));
    }
    image.label_values = own;
  }
  if (!truth.drawn_labels || !truth.drawn_labels->background) return;
  const auto it = kept.find(*truth.drawn_labels->background);
  truth.drawn_labels->background = it == kept.end() ? std::nullopt : std::optional(it->second);
}

LabelMap draw_label_map(std::span<const Annotation> annotations, ImageSize size, uint16_t background,
                        const std::function<int64_t(int64_t category)>& label_of,
                        const std::function<std::string(const Annotation&)>& where) {
  LabelMap map(size);
  std::ranges::fill(map.values, background);
  const auto draw = [&](const Mask& mask, uint16_t label) {
    for (const Mask::Run& run : mask.runs())
      for (int64_t i = run.begin; i < run.end; ++i)  // columns one after another
        map.values[static_cast<size_t>(i % size.height * size.width + i / size.height)] = label;
  };
  std::vector<std::pair<Mask, uint16_t>> masks;
  for (const Annotation& a : annotations) {
    try {
      if (!a.segmentation)
        draw(Mask::from_box(size, cut(box_of_corner(a.bbox), size)), LabelMap::kIgnored);
      else
        masks.emplace_back(a.segmentation->mask(size), static_cast<uint16_t>(label_of(a.category_id)));
    } catch (const InputError& e) {
      fail_input("{}: {}", where(a), e.what());
    }
  }
  std::ranges::stable_sort(masks, std::ranges::greater(), [](const auto& m) { return m.first.area(); });
  for (const auto& [mask, label] : masks) draw(mask, label);
  return map;
}

}  // namespace saccade
