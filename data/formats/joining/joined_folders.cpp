#include "data/formats/joining/joined_folders.h"

#include <algorithm>
#include <numeric>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"

namespace saccade {
namespace {

using Folders = std::shared_ptr<const ClassificationDataset>;

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

class JoinedFolders final : public ClassificationDataset {
 public:
  JoinedFolders(const DataPaths& paths, const std::vector<DataPaths>& sets, std::vector<Folders> parts,
                const std::vector<std::string>& classes)
      : name_(paths.annotations.empty() ? paths.images : paths.annotations), parts_(std::move(parts)) {
    class_names_ = classes.empty() ? names_of(paths.choice) : classes;
    ChoiceCounts counts(paths.choice);
    for (size_t p = 0; p < parts_.size(); ++p) {
      const std::string below = name_below(sets[p].images, paths.images);
      add(p, below.empty() || below == "." ? "" : below + "/", paths.choice, counts);
    }
    if (images_.empty()) fail_input("{}: has no images of the {} classes", name_, class_names_.size());
    notes_ = counts.lines("images");
    if (const auto missing = classes_without_images(paths.choice); !missing.empty())
      notes_.push_back(fmt::format("has no images of {} of the classes, the first is \"{}\"", missing.size(),
                                   printable(missing[0])));
    if (paths.most > 0) keep(static_cast<size_t>(paths.most));
  }

  const std::string& name() const override { return name_; }
  int64_t num_images() const override { return std::ssize(images_); }
  std::string image_path(int64_t index) const override {
    return parts_[image(index).part]->image_path(image(index).index);
  }
  int64_t image_id(int64_t index) const override { return index; }
  const std::string& file_name(int64_t index) const override { return image(index).name; }
  std::vector<int64_t> labels_of(int64_t index) const override { return {image(index).label}; }
  Sample make_sample(int64_t index, Image pixels) const override {
    Sample sample;
    sample.image = std::move(pixels);
    sample.label = image(index).label;
    return sample;
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> lines;
    for (const Folders& part : parts_)
      for (std::string& note : part->notes()) lines.push_back(std::move(note));
    for (const std::string& note : notes_) lines.push_back(fmt::format("note: {}: {}", name_, note));
    lines.push_back(
        fmt::format("{}: {} images of {} classes count", name_, num_images(), class_names_.size()));
    return lines;
  }

 private:
  struct Entry {
    size_t part;
    int64_t index, label;
    std::string name;  // below the folder that all lie in
  };
  const Entry& image(int64_t index) const { return images_.at(static_cast<size_t>(index)); }

  std::vector<std::string> names_of(const ClassChoice& choice) const {
    if (!choice.only.empty()) return choice.only;
    std::vector<std::string> names;
    for (const Folders& part : parts_)
      for (const std::string& own : part->class_names())
        if (std::string name = choice.name_of(own); !name.empty() && !is_among(names, name))
          names.push_back(std::move(name));
    return names;
  }

  std::vector<std::string> classes_without_images(const ClassChoice& choice) const {
    std::vector<bool> has_images(class_names_.size(), false);
    for (const Entry& e : images_) has_images[static_cast<size_t>(e.label)] = true;
    std::vector<std::string> missing;
    for (size_t k = 0; k < has_images.size(); ++k)
      if (!has_images[k] && (choice.only.empty() || is_among(choice.only, class_names_[k])))
        missing.push_back(class_names_[k]);
    return missing;
  }

  void add(size_t p, const std::string& below, const ClassChoice& choice, ChoiceCounts& counts) {
    const ClassificationDataset& part = *parts_[p];
    std::vector<int64_t> labels, images(part.class_names().size(), 0);
    for (const std::string& own : part.class_names()) {
      const std::string name = choice.name_of(own);
      const auto place = std::ranges::find(class_names_, name);
      if (!name.empty() && place == class_names_.end())
        fail_input("{}: has the class \"{}\", which is not one of the {} classes (\"{}\", ...)", part.name(),
                   printable(name), class_names_.size(), printable(class_names_.front()));
      labels.push_back(name.empty() ? -1 : place - class_names_.begin());
    }
    for (int64_t i = 0; i < part.num_images(); ++i) {
      const auto own = static_cast<size_t>(part.labels_of(i).at(0));
      ++images[own];
      if (labels[own] >= 0) images_.push_back({p, i, labels[own], below + part.file_name(i)});
    }
    for (size_t k = 0; k < images.size(); ++k) counts.add(part.class_names()[k], images[k]);
  }

  // The first of each class, then the second of each, and so on.
  void keep(size_t most) {
    std::vector<size_t> places(images_.size()), rounds, seen(class_names_.size(), 0);
    std::iota(places.begin(), places.end(), size_t{0});
    for (const Entry& e : images_) rounds.push_back(seen[static_cast<size_t>(e.label)]++);
    std::ranges::stable_sort(places, {}, [&](size_t i) { return rounds[i]; });
    places.resize(std::min(places.size(), most));
    std::ranges::sort(places);
    std::vector<Entry> kept;
    for (const size_t i : places) kept.push_back(std::move(images_[i]));
    images_ = std::move(kept);
  }

  std::string name_;
  std::vector<Folders> parts_;
  std::vector<Entry> images_;
  std::vector<std::string> class_names_, notes_;
};

}  // namespace

std::shared_ptr<const ClassificationDataset> join_folders(const DataPaths& paths,
                                                          const std::vector<std::string>& classes,
                                                          const OpenFolders& open) {
  const std::vector<DataPaths> sets = sets_of(paths);
  const ClassChoice map{.map = paths.choice.map};
  std::vector<Folders> parts;
  std::vector<std::string> names;
  for (DataPaths set : sets) {
    set.choice = {};
    set.sets.clear();
    set.most = 0;
    set.allow_outside = paths.allow_outside;
    Folders part = open(set, {});
    // Folders may stand for the classes by other names (WordNet's numbers): who knows the classes says so, or what is wrong.
    if (!classes.empty() && std::ranges::none_of(part->class_names(), [&](const std::string& own) {
          return is_among(classes, map.name_of(own));
        }))
      part = open(set, classes);
    names.insert(names.end(), part->class_names().begin(), part->class_names().end());
    parts.push_back(std::move(part));
  }
  if (classes.empty()) check_choice(paths.choice, names, paths.images);
  return std::make_shared<JoinedFolders>(paths, sets, std::move(parts), classes);
}

}  // namespace saccade
