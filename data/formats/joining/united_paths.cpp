#include "data/formats/joining/united_paths.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/formats/checks/unused_data.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

// Returns "a.json + b.yaml" or "a.json + 4 others".
std::string names_of(const std::vector<DataPaths>& sets) {
  constexpr size_t kNamed = 3;
  std::string names = sets[0].name();
  if (sets.size() > kNamed) return fmt::format("{} + {} others", names, sets.size() - 1);
  for (size_t i = 1; i < sets.size(); ++i) names += " + " + sets[i].name();
  return names;
}

// Reports the splits that a place lacks and others have.
void tell_what_lacks(const std::vector<DataSplits>& found, const std::vector<std::string>& places,
                     DataSplits& all) {
  for (const SplitNames& names : split_names()) {
    if (!(all.*names.split)) continue;
    for (size_t i = 0; i < found.size(); ++i)
      if (!(found[i].*names.split))
        all.notes.push_back(fmt::format("{}: has no {} images; those of the other data sets are used",
                                        places[i], names.names[0]));
  }
}

}  // namespace

std::vector<DataPaths> sets_of(const DataPaths& paths) {
  return paths.sets.empty() ? std::vector<DataPaths>{paths} : paths.sets;
}

DataPaths plain_set(DataPaths set, const DataPaths& all) {
  set.sets.clear();
  set.choice = {};
  set.most = 0;
  set.allow_outside = all.allow_outside;
  set.may_lack_annotations = all.may_lack_annotations;
  const bool masks = set.wants.masks || all.wants.masks;
  set.wants = all.wants;
  set.wants.masks = masks;
  set.label_maps = all.label_maps;
  set.categories = {};
  return set;
}

DataPaths unite_paths(const std::vector<DataPaths>& sets) {
  if (sets.size() == 1) return sets[0];
  DataPaths all{.annotations = names_of(sets), .images = "", .wants = sets[0].wants};
  std::vector<std::string> folders;
  for (const DataPaths& set : sets) folders.push_back(set.images);
  all.images = common_folder(folders);
  all.sets = sets;
  return all;
}

DataPaths known_by_names(DataPaths paths) {
  if (paths.sets.empty()) paths.sets = sets_of(paths);
  return paths;
}

DataSplits find_united(const std::vector<std::string>& places, const PlaceOptions& options) {
  std::vector<DataSplits> found;
  bool has_val = false;
  for (const std::string& place : places) {
    found.push_back(find_splits(place, options.format, options.wants));
    has_val = has_val || found.back().val;
  }
  DataSplits all;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool is_new =
        std::none_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const DataSplits& other) { return other.format == found[i].format; });
    if (is_new) all.format += (i == 0 ? "" : ", ") + found[i].format;
    all.notes.insert(all.notes.end(), found[i].notes.begin(), found[i].notes.end());
    if (options.wants.boxes)
      for (std::string& note : notes_on_unused(places[i], found[i], found))
        all.notes.push_back(std::move(note));
    if (has_val) continue;
    if (std::string drawn = draw_validation(found[i], options.val_fraction, options.seed); !drawn.empty())
      all.drawn.push_back(std::move(drawn));
  }
  for (const SplitNames& names : split_names()) {
    std::vector<DataPaths> sets;
    for (const DataSplits& splits : found)
      if (const auto& split = splits.*names.split) sets.push_back(*split);
    if (sets.empty()) continue;
    all.*names.split = unite_paths(sets);
    if (places.size() > 1) all.*names.split = known_by_names(*(all.*names.split));
  }
  if (places.size() > 1) tell_what_lacks(found, places, all);
  return all;
}

}  // namespace saccade
