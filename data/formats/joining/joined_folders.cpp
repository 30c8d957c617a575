#include <algorithm>
#include <map>
#include <set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> names_of(const std::vector<Category>& categories) {
  std::vector<std::string> names;
  for (const Category& c : categories) names.push_back(c.name);
  return names;
}

// Returns the classes of the parts after the mapping.
std::vector<std::string> classes_of(const std::vector<GroundTruth>& parts, const ClassChoice& choice) {
  if (!choice.only.empty()) return choice.only;
  std::vector<std::string> names;
  for (const GroundTruth& part : parts)
    for (const Category& own : part.categories)
      if (std::string name = choice.name_of(own.name); !name.empty() && !is_among(names, name))
        names.push_back(std::move(name));
  return names;
}

// Adds the chosen images of the part to `all`, with names relative to the common folder.
void add(GroundTruth& part, const DataPaths& set, const DataPaths& paths, GroundTruth& all,
         ChoiceCounts& counts) {
  std::string below = name_below(set.images, paths.images);
  below = below.empty() || below == "." ? "" : below + "/";
  std::map<int64_t, std::optional<int64_t>> ids;  // nothing if it is left out
  std::map<int64_t, int64_t> images;
  for (const Category& own : part.categories) {
    const std::string name = paths.choice.name_of(own.name);
    const auto place = std::ranges::find(all.categories, name, &Category::name);
    if (!name.empty() && place == all.categories.end())
      fail_input("{}: has the class \"{}\", which is not one of the {} classes (\"{}\", ...)", set.name(),
                 printable(name), all.categories.size(), printable(all.categories.front().name));
    ids[own.id] = name.empty() ? std::nullopt : std::optional(place->id);
  }
  for (ImageInfo& image : part.images) {
    const int64_t own = image.category_id.value();
    ++images[own];
    if (const auto& id = ids.at(own))
      all.images.push_back(
          {.id = std::ssize(all.images), .file_name = below + image.file_name, .category_id = id});
  }
  for (const Category& own : part.categories) counts.add(own.name, images[own.id]);
  for (const std::string& link : part.links) all.links.push_back(below + link);
  all.told.insert(all.told.end(), part.told.begin(), part.told.end());
}

std::vector<std::string> classes_without_images(const GroundTruth& all, const ClassChoice& choice) {
  std::set<int64_t> with_images;
  for (const ImageInfo& image : all.images) with_images.insert(*image.category_id);
  std::vector<std::string> missing;
  for (const Category& c : all.categories)
    if (!with_images.contains(c.id) && (choice.only.empty() || is_among(choice.only, c.name)))
      missing.push_back(c.name);
  return missing;
}

}  // namespace

GroundTruth join_folders(const DataPaths& paths, const ReadFolders& read) {
  const std::vector<DataPaths> sets = sets_of(paths);
  const ClassChoice map{.map = paths.choice.map};
  const std::vector<std::string> known = names_of(paths.categories);
  std::vector<GroundTruth> parts;
  std::vector<std::string> names;
  for (const DataPaths& one : sets) {
    DataPaths set = plain_set(one, paths);
    GroundTruth part = read(set);
    // Folders may have other names for the classes (WordNet ids): reading them with the known classes
    // resolves this, or reports the error.
    if (!known.empty() && std::ranges::none_of(part.categories, [&](const Category& own) {
          return is_among(known, map.name_of(own.name));
        })) {
      set.categories = paths.categories;
      part = read(set);
    }
    for (std::string& name : names_of(part.categories)) names.push_back(std::move(name));
    parts.push_back(std::move(part));
  }
  if (known.empty()) check_choice(paths.choice, names, paths.images);
  GroundTruth all;
  all.names_all_images = true;
  all.categories = number_classes(classes_of(parts, paths.choice), paths);
  ChoiceCounts counts(paths.choice);
  for (size_t p = 0; p < parts.size(); ++p) add(parts[p], sets[p], paths, all, counts);
  const std::string& name = paths.name();
  if (all.images.empty()) fail_input("{}: has no images of the {} classes", name, all.categories.size());
  std::vector<std::string> notes = counts.lines("images");
  if (const auto missing = classes_without_images(all, paths.choice); !missing.empty())
    notes.push_back(fmt::format("has no images of {} of the classes, for example \"{}\"", missing.size(),
                                printable(missing[0])));
  all = part_of(std::move(all), {.annotations = "", .images = "", .most = paths.most});
  for (const std::string& note : notes) all.told.push_back(fmt::format("note: {}: {}", name, note));
  all.told.push_back(
      fmt::format("{}: {} images of {} classes are used", name, all.images.size(), all.categories.size()));
  return all;
}

}  // namespace saccade
