// What the predictions of detectors and classifiers share: the images named on the command line and the
// folder of results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/temporary.h"
#include "core/types/mask.h"
#include "data/augment/augment.h"
#include "data/images/image.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

struct PredictInput {
  std::string path;
  std::string name;       // in the list of results
  std::string picture;    // file name of the picture or of the video that is drawn; "": none
  bool is_video = false;  // a file, a camera or a stream
};

// What the crops of its objects are called, below the folder, without number and extension.
std::string crop_stem(const PredictInput& input);

struct FrameTime {
  int64_t number = 0;  // from 0
  double seconds = 0;
};

struct LoadedInput {
  const PredictInput* input;
  Image image;
  std::optional<FrameTime> frame = {};  // of a video
};

struct PredictInputs {
  std::vector<PredictInput> images;   // distinct names
  std::vector<std::string> problems;  // folders that cannot be read or have no images
  std::vector<std::string> notes;     // what else is in the folders
};
// The images that the arguments name ("-": the standard input, addresses of streams alone): files as they
// are, folders (without their videos) and patterns of the shell (where no file has that name) expanded in
// alphabetical order. Whether a file is an image shows when it is read.
PredictInputs collect_inputs(const std::vector<std::string>& arguments, bool recursive);

// Names for the pictures in the folder `output`: "photo.png" for photo.jpg, "photo_2.png" where that name is
// taken by another picture or by a file that predict has not drawn, or is to read, which stays.
class PictureNames {
 public:
  PictureNames(std::string output, const std::vector<PredictInput>& images);
  // `stem`: below the folder, without extension
  std::string name(const std::string& stem, const std::string& extension = ".png");
  // Removes the pictures that predict has drawn earlier and that would have the next names of this stem; how
  // many.
  int64_t remove_rest(const std::string& stem, const std::string& extension = ".png") const;
  // About the files that were in the way, or "".
  std::string note() const;

 private:
  // Whether a file is a drawing of ours that a new one may replace.
  bool may_go(const std::string& path) const;

  std::string output_;
  std::set<std::pair<uint64_t, uint64_t>> inputs_;  // device and number of the files
  std::set<std::string> taken_;
  std::map<std::string, int> next_;  // of each stem, the first number that may be free
  std::string first_kept_, first_other_;
  size_t kept_ = 0;
};
// Whether there is a file that would be replaced (throws InputError where none can be written), and the first
// bytes of a regular one that is no link; "" for anything else.
bool is_old_file(const std::string& path);
// Whether a file is replaced; throws InputError where its name has none of these endings.
bool replaces_file(const std::string& path, const std::vector<std::string>& endings);
std::string beginning_of(const std::string& path, size_t bytes);
// A file of metrics, detections or a page whose name is the user's; "": none.
class NamedFile {
 public:
  // Throws InputError where it would replace a file whose name has none of these endings.
  explicit NamedFile(std::string path, const std::vector<std::string>& endings = {".json"});
  // Says so where it has replaced one.
  void write(std::string_view text) const;
  void tell_if_replaced() const;

 private:
  std::string path_;
  bool replaces_ = false;
};
// Throws InputError when the list of results would replace a file that predict has not written.
void check_list(const std::string& output, const std::string& name);

// A picture that predict has drawn, as the bytes of a PNG file that says so; of one with a mask the other
// pixels are transparent.
std::vector<uint8_t> encode_drawing(const Image& image, const Mask* opaque = nullptr);
// The same as a file of this format, "png" or "jpg" of a quality at which text stays sharp.
std::vector<uint8_t> encode_drawing(const Image& image, const std::string& format);
// What the list of results says first of an image or frame: "{"file_name": "clip.mp4", "frame": 3,
// "time": 0.12".
std::string list_entry(const PredictInput& input, const std::optional<FrameTime>& frame);
// The bytes of a PNG file with that in them.
std::vector<uint8_t> marked_as_drawn(std::vector<uint8_t> png);

// The paths that a file lists, one a line. Throws InputError.
std::vector<std::string> listed_paths(const std::string& file);

// An image resized as for evaluation; `name` is that of messages.
struct SizedImage {
  Sample sample;
  Target target;
};
SizedImage sized_image(const Image& image, const std::string& name, const Augmentation& to_size);
Batch batch_of(std::vector<SizedImage> images, const Config& config);
// A batch of these images, resized so.
Batch batch_of(const std::vector<LoadedInput>& images, const Config& config);

// A temporary folder next to the results in which each is made before it gets its name; leftovers are removed
// at the end, and by signals.
class Workspace {
 public:
  explicit Workspace(const std::string& output);
  // Where to write the result `name`; its folder is there.
  std::string file(const std::string& name) const;
  // Moves a result to its place, in a folder of its own where the name says so;
  // a file that it replaces gives it its permissions.
  void publish(const std::string& name);
  // Removes the result of an earlier run from its place; a later one there gets its permissions.
  void withdraw(const std::string& name);

 private:
  std::string output_;
  MadeFolder folder_;  // of the results
  std::optional<TemporaryPath> path_;
  std::map<std::string, std::filesystem::perms> withdrawn_;
};

}  // namespace saccade
