// What the predictions of detectors and classifiers share: the images named on the command line and the folder of
// results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/formats/temporary.h"
#include "data/images/image.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

struct PredictInput {
  std::string path;
  std::string name;     // in the list of results
  std::string picture;  // file name of the picture; "" before name_pictures
};

struct PredictInputs {
  std::vector<PredictInput> images;   // distinct names
  std::vector<std::string> problems;  // folders that cannot be read or have no images
  std::vector<std::string> notes;     // what else is in the folders
};
// The images that the arguments name: files as they are, folders expanded in alphabetical order. Whether a file is an image shows
// when it is read.
PredictInputs collect_inputs(const std::vector<std::string>& arguments);

// Gives every image the name of its picture in the folder `output`: "photo.png" for photo.jpg, "photo_2.png" where that name is
// taken by another image or by a file that predict has not drawn, which stays. Returns a note about such files, or "".
std::string name_pictures(std::vector<PredictInput>& images, const std::string& output);
// Throws InputError when the list of results would replace a file that predict has not written.
void check_list(const std::string& output, const std::string& name);

// A picture that predict has drawn, as the bytes of a PNG file that says so.
std::vector<uint8_t> encode_drawing(const Image& image);

// A batch of one image, resized as for evaluation.
Batch one_image_batch(const Image& original, const Config& config);

// A temporary folder beside the results that holds them until all are there; leftovers are removed at the end, and by signals.
class Workspace {
 public:
  explicit Workspace(const std::string& output);
  std::string file(const std::string& name) const { return path_->path() + "/" + name; }
  // Moves a result to its place; a file that it replaces gives it its permissions.
  void publish(const std::string& name);

 private:
  std::string output_;
  std::optional<TemporaryPath> fresh_;  // the folder of results where this made it, until something is in it
  std::optional<TemporaryPath> path_;
};

}  // namespace saccade
