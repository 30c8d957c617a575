#include "data/formats/checks/kept_labels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/tensor/error.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/listing.h"

namespace saccade {
namespace {

bool may_be_of_format(const DataFormat& format, const DataPaths& set) {
  if (!set.format.empty()) return format.name == set.format;
  return format.recognises != nullptr && format.recognises(set);
}

// Whether the labels of the set are also read from this file, which exists.
bool is_read_from(const DataPaths& set, const DataFormat& format, const std::string& file) {
  const bool fits =
      std::ranges::any_of(format.label_endings, [&](const char* e) { return file.ends_with(e); });
  if (!fits || format.holds_labels == nullptr || !format.holds_labels(file) || !may_be_of_format(format, set))
    return false;
  const FileIdentity own = identity_of(file);
  std::vector<std::string> places{set.annotations};
  if (format.label_places != nullptr) places = format.label_places(set);
  for (const std::string& place : places) {
    if (is_file(place) && identity_of(place) == own) return true;
    if (!is_folder(place)) continue;
    for (const char* ending : format.label_endings)
      for (const std::string& name : list_files_below(place, ending))
        if (identity_of(joined(place, name)) == own) return true;
  }
  return false;
}

void check_outputs_of_one(std::initializer_list<NamedPath> outputs, const DataPaths& set) {
  check_outputs(outputs, {{"the annotations", set.annotations}});
  for (const NamedPath& output : outputs) {
    if (output.path.empty()) continue;
    const OutputTarget target = output_target(output.path);
    if (!target.old || target.is_device || target.descriptor >= 0) continue;
    for (const auto& [name, format] : data_formats().all())
      if (is_read_from(set, format, target.path))
        fail_input("{}: {} is one of the files with the labels in {}, expected another name", output.path,
                   output.name, set.name());
  }
}

}  // namespace

void check_outputs_of_set(std::initializer_list<NamedPath> outputs, const DataPaths& paths) {
  for (const DataPaths& set : sets_of(paths)) {
    check_outputs_of_one(outputs, set);
    for (DataPaths other : set.beside) {
      other.format = set.format;
      check_outputs_of_one(outputs, other);
    }
  }
}

}  // namespace saccade
