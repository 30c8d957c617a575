// What a report on a data set is about, and what looking at its images finds out.
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
  // As it was read, faults and all. Of class folders: the images and classes, without annotations, and the
  // class of each image as a place in truth.categories.
  GroundTruth truth;
  std::vector<size_t> image_classes = {};
  std::vector<ClassPixels> pixels = {};   // of label maps, by image
  Findings problems = {};                 // of the lists
  std::vector<std::string> remarks = {};  // allowed, but rarely meant
};

// One image of a split.
struct ImagePlace {
  size_t split = 0, image = 0;  // places in the lists
  auto operator<=>(const ImagePlace&) const =
      default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 takes its 0 for a pointer
};

struct ImageLook {
  std::string problem;        // why it cannot be read; "": it can, or it was not looked at
  ImageSize size;             // as it is shown; 0: not known
  bool is_looked_at = false;  // what follows is known
  uint64_t checksum = 0;      // of the file
  uint64_t hash = 0;  // a bit for each of 8 x 8 neighbouring fields: whether it gets darker to the right
  std::array<uint8_t, 256> fields{};  // the brightness of 16 x 16 fields
};
using ImageLooks = std::vector<std::vector<ImageLook>>;  // by split and image

// Where the image lies; nothing for a name that leads out of the folder, unless the paths allow that.
std::optional<std::string> path_of(const ReportedSplit& split, size_t image);
// The decoded image, or nothing where it cannot be read.
std::optional<Image> open_picture(const ReportedSplit& split, size_t image);

// Reads at most `most` images, spread evenly over all; of the others that have no size in the lists, only
// that. Image sizes that the lists lack are filled in. `progress` is told of each that is done,
// from any thread.
ImageLooks look_at_images(std::vector<ReportedSplit>& splits, int64_t most,
                          const std::function<void()>& progress);

struct DuplicateGroup {
  std::vector<ImagePlace> images;  // two or more, ascending
  bool is_exact = false;           // the same bytes; else the same picture as far as one sees
  bool is_leak = false;            // in two splits or more
  int64_t copies = 0;              // images with the bytes of an earlier one
  bool is_exact_leak = false;      // the same bytes are in two splits or more
};
// Leaks first, of them those of the same bytes, then exact ones, then by the first image. Pictures of one
// colour count only with the same bytes.
std::vector<DuplicateGroup> find_duplicates(const ImageLooks& looks);

}  // namespace saccade
