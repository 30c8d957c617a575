// Collects the images and videos that the arguments of predict name.
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "data/formats/label_maps/pairs.h"
#include "data/images/image.h"
#include "train/inference/picture_files.h"
#include "train/video/video.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

// Whether the name is that of an image; images in an unsupported format are reported when they are read.
bool is_called_image(const std::string& name) {
  return !name.starts_with(".") && (has_image_extension(name) || has_foreign_image_extension(name));
}

struct FolderContents {
  std::vector<std::string> files, problems;  // images; folders that cannot be read
  size_t folders = 0, others = 0, maps = 0;  // not used
};

FolderContents list_folder(const std::string& folder, bool recursive) {
  FolderContents found;
  std::vector<fs::path> waiting{folder};
  while (!waiting.empty()) {
    const fs::path here = std::move(waiting.back());
    waiting.pop_back();
    std::error_code error;
    fs::directory_iterator it(here, error), end;
    for (; !error && it != end; it.increment(error)) {
      std::error_code broken_link;
      const std::string name = it->path().filename().string();
      if (it->is_directory(broken_link)) {
        const bool enters = recursive && !it->is_symlink(broken_link) && !name.starts_with(".");
        if (enters) waiting.push_back(it->path());
        found.folders += !enters;
      } else if (is_called_image(name)) {
        found.files.push_back(it->path().string());
      } else {
        ++found.others;
      }
    }
    if (error)
      found.problems.push_back(
          fmt::format("{}: the folder cannot be read: {}", here.string(), error.message()));
  }
  std::sort(found.files.begin(), found.files.end());
  const std::vector<std::string> maps = maps_beside_images(found.files);
  found.maps = maps.size();
  std::erase_if(found.files, [&](const std::string& file) { return std::ranges::binary_search(maps, file); });
  std::sort(found.problems.begin(), found.problems.end());
  return found;
}

void expand_folder(const std::string& folder, bool recursive, PredictInputs& inputs) {
  auto [files, problems, folders, others, maps] = list_folder(folder, recursive);
  if (files.empty() && problems.empty())
    inputs.problems.push_back(
        fmt::format("{}: no images in this folder, expected {} files", folder, kImageFormats));
  std::vector<std::string> left_out;
  if (folders > 0) left_out.push_back(count_of(static_cast<int64_t>(folders), "sub-folder", "sub-folders"));
  if (others > 0)
    left_out.push_back(count_of(static_cast<int64_t>(others), "file not named like an image",
                                "files not named like images"));
  if (maps > 0)
    left_out.push_back(count_of(static_cast<int64_t>(maps), "label map next to its image",
                                "label maps next to their images") +
                       " (IMAGE_mask.png)");
  if (!left_out.empty())
    inputs.notes.push_back(fmt::format("{}: left out: {}", folder, fmt::join(left_out, ", ")));
  for (std::string& problem : problems) inputs.problems.push_back(std::move(problem));
  for (std::string& file : files) inputs.images.push_back({std::move(file), "", ""});
}

// Returns nothing unless it is a pattern that matches something.
std::vector<std::string> expand_pattern(const std::string& pattern) {
  std::vector<std::string> paths;
  if (pattern.find_first_of("*?[") == std::string::npos) return paths;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return paths;
}

constexpr const char* kStandardInput = "/dev/stdin";

// Whether the path is like "https://a/b.jpg".
bool is_address(const std::string& path) {
  const size_t scheme = path.find("://");
  return scheme != std::string::npos && scheme > 1 &&
         std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(scheme),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

}  // namespace

PredictInputs collect_inputs(const std::vector<std::string>& arguments, bool recursive) {
  PredictInputs inputs;
  bool has_folder = false;
  auto add = [&](const std::string& path) {
    std::error_code error;
    if (video_source(path))
      return inputs.images.push_back({.path = path, .name = "", .picture = "", .is_video = true});
    if (path == "-") return inputs.images.push_back({kStandardInput, "", ""});
    if (is_address(path))
      return inputs.problems.push_back(fmt::format(
          "{}: is a URL, expected a file, a folder or a pattern; download it first, or pipe an image into "
          "`-`",
          path));
    if (lower_extension(path) == ".m3u8")
      return inputs.problems.push_back(
          fmt::format("{}: is a playlist, which is not read; expected the video itself", path));
    if (!fs::is_directory(path, error)) return inputs.images.push_back({path, "", ""});
    has_folder = true;
    expand_folder(path, recursive, inputs);
  };
  for (const std::string& argument : arguments) {
    const std::vector<std::string> matches =
        is_there(argument) ? std::vector<std::string>() : expand_pattern(argument);
    for (const std::string& match : matches) add(match);
    if (!matches.empty()) continue;
    const bool is_pattern = argument.find_first_of("*?") != std::string::npos && !is_there(argument);
    if (is_pattern && !is_address(argument) && !video_source(argument))
      inputs.problems.push_back(fmt::format("{}: no file matches the pattern", argument));
    else
      add(argument);
  }
  if (recursive && !has_folder)
    inputs.notes.emplace_back("note: --recursive: changes nothing, none of the inputs is a folder");
  std::map<std::string, int> count;
  auto short_name = [](const PredictInput& input) {
    const std::string shown = input.is_video ? shown_video_name(input.path) : input.path;
    return is_address(shown) ? shown : fs::path(shown).filename().string();
  };
  for (const PredictInput& input : inputs.images) ++count[short_name(input)];
  for (PredictInput& input : inputs.images) {
    const std::string name = short_name(input);
    input.name = count[name] > 1 && !is_address(input.path) ? input.path : name;
  }
  return inputs;
}

}  // namespace saccade
