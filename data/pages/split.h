// The subject of a report on a data set, and the results of inspecting its images.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/checks/dataset_check.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"

namespace saccade {

struct ReportedSplit {
  std::string name;  // "train"
  DataPaths paths;
  // As it was read, including its faults. For class folders: the images and classes, without annotations, and
  // the class of each image as an index of truth.categories.
  GroundTruth truth;
  std::vector<size_t> image_classes = {};
  std::vector<ClassPixels> pixels = {};   // of label maps, by image
  Findings problems = {};                 // of the lists
  std::vector<std::string> remarks = {};  // allowed but rarely intended
};

// One image of a split.
struct ImagePlace {
  size_t split = 0, image = 0;  // indices of the lists
  auto operator<=>(const ImagePlace&) const =
      default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 takes its 0 for a pointer
};

struct ImageLook {
  std::string problem;        // why it cannot be read; empty if it can, or if it was not inspected
  std::string damage;         // "FILE: what is damaged" if it can be read in spite of it
  ImageSize size;             // as shown; 0 if unknown
  bool is_looked_at = false;  // the following fields are known
  uint64_t checksum = 0;      // of the file
  uint64_t hash = 0;  // a bit for each of 8 x 8 neighbouring fields: whether it gets darker to the right
  std::array<uint8_t, 256> fields{};  // the brightness of 16 x 16 fields
};
using ImageLooks = std::vector<std::vector<ImageLook>>;  // by split and image

// Returns the image's path; nothing if its name leads out of the folder, unless the paths allow that.
std::optional<std::string> path_of(const ReportedSplit& split, size_t image);
// Returns the decoded image, or nothing if it cannot be read.
std::optional<Image> open_picture(const ReportedSplit& split, size_t image);

// Inspects at most `most` images, spread evenly over all; of the others, only sizes that the lists lack are
// read. Fills in image sizes that the lists lack. `progress` is called for each finished image,
// from any thread.
ImageLooks look_at_images(std::vector<ReportedSplit>& splits, int64_t most,
                          const std::function<void()>& progress);

struct DuplicateGroup {
  std::vector<ImagePlace> images;  // two or more, ascending
  bool is_exact = false;           // the same bytes; else pictures that look the same
  bool is_leak = false;            // in two or more splits
  int64_t copies = 0;              // images with the bytes of an earlier one
  bool is_exact_leak = false;      // the same bytes are in two or more splits
};
// Leaks come first, among them those with the same bytes, then exact duplicates, then by the first image.
// Pictures of one colour count only if the bytes are the same.
std::vector<DuplicateGroup> find_duplicates(const ImageLooks& looks);

}  // namespace saccade
