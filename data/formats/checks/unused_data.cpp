#include "data/formats/checks/unused_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/tensor/error.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int kLevels = 3;
constexpr size_t kMostBeside = 200;  // folders

// Without links, so that a place has one name.
fs::path real_path(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return normal_path(error ? fs::absolute(path) : real);
}

// Whether `path` is the folder or lies in it.
bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

class Search {
 public:
  Search(const DataFormat& format, const DataSplits& splits) : format_(format), splits_(splits) {
    for (const SplitNames& names : split_names())
      if (const auto& split = splits.*names.split)
        for (const DataPaths& set : sets_of(*split)) {
          for (const std::string& place : {set.images, set.annotations})
            if (!place.empty()) used_.push_back(real_path(place));
          if (is_file(set.annotations)) lists_.push_back(set.annotations);
        }
  }

  std::vector<std::string> run(const std::string& folder) {
    look_beside(folder, 0);
    for (const std::string& list : lists_) look_for_lists(list);
    if (const auto count = std::ssize(unused_); count > 0)
      notes_.push_back(fmt::format("{} {} labelled data but {} of the splits and {} left out{}{}",
                                   count == 1 ? unused_.front() : count_of(count, "", "folders or lists"),
                                   count == 1 ? "holds" : fmt::format("in {} hold", folder),
                                   count == 1 ? "is none" : "are none", count == 1 ? "is" : "are",
                                   count == 1 ? "" : ", first ", count == 1 ? "" : unused_.front()));
    return std::move(notes_);
  }

 private:
  // The folders in this one, and in those of them that hold a split.
  void look_beside(const std::string& folder, int level) {
    std::vector<std::string> beside;
    std::error_code error;
    fs::directory_iterator it(folder, error), end;
    for (; !error && it != end && beside.size() < kMostBeside; it.increment(error))
      if (!it->path().filename().string().starts_with(".") && is_folder(it->path().string()))
        beside.push_back(it->path().string());
    std::ranges::sort(beside);
    for (const std::string& place : beside) {
      const fs::path path = real_path(place);
      if (std::ranges::any_of(used_, [&](const fs::path& used) { return is_below(path, used); })) continue;
      if (std::ranges::any_of(used_, [&](const fs::path& used) { return is_below(used, path); })) {
        if (level + 1 < kLevels) look_beside(place, level + 1);
      } else if (holds_labels(place)) {
        add(place);
      }
    }
  }

  bool holds_labels(const std::string& place) const {
    if (!holds_image(place)) return false;
    try {
      if (format_.holds_labels != nullptr && format_.holds_labels(place)) return true;
      const DataSplits found = format_.find(place);
      return std::ranges::any_of(split_names(), [&](const SplitNames& names) {
        const auto& split = found.*names.split;
        return split && holds_image(split->images);
      });
    } catch (const InputError&) {
      return false;
    }
  }

  // Lists beside one that is taken, which begin as it does but for the name of its split.
  void look_for_lists(const std::string& list) {
    if (format_.holds_labels == nullptr) return;
    const std::string stem = fs::path(list).stem().string();
    size_t same = 0;
    for (const SplitNames& names : split_names())
      if (const size_t at = stem.rfind(names.names[0]); at != std::string::npos) same = at;
    const std::string folder = parent_of(list);
    for (const std::string& name : list_files(folder, fs::path(list).extension().string())) {
      const std::string place = joined(folder, name);
      if (name.starts_with(stem.substr(0, same)) &&
          std::ranges::find(used_, real_path(place)) == used_.end() && format_.holds_labels(place))
        add(place);
    }
  }

  // One that has another usual name of a split is told on its own.
  void add(const std::string& place) {
    const auto is_told = [&](const std::string& note) {
      return note.starts_with(place + ": ") || note.starts_with(place + "/");
    };
    if (std::ranges::any_of(splits_.notes, is_told) || std::ranges::any_of(notes_, is_told) ||
        std::ranges::find(unused_, place) != unused_.end())
      return;
    const std::string name = fs::path(place).stem().string();
    for (const SplitNames& names : split_names())
      if (const auto& split = splits_.*names.split;
          split && std::ranges::find(names.names, name) != names.names.end()) {
        notes_.push_back(fmt::format("{}: is not taken, as {} is there", place, split->images));
        return;
      }
    unused_.push_back(place);
  }

  const DataFormat& format_;
  const DataSplits& splits_;
  std::vector<fs::path> used_;
  std::vector<std::string> lists_, unused_, notes_;
};

}  // namespace

std::vector<std::string> notes_on_unused(const std::string& folder, const DataFormat& format,
                                         const DataSplits& splits) {
  return Search(format, splits).run(folder);
}

}  // namespace saccade
