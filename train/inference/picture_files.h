// What the predictions of all tasks share: the images named on the command line, and the folder of results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
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
  std::string picture;    // file name of the picture or video that is drawn; empty if none
  bool is_video = false;  // a file, a camera or a stream
};

// The file name of the crops of its objects, relative to the output folder, without number and extension.
std::string crop_stem(const PredictInput& input);

struct FrameTime {
  int64_t number = 0;  // counted from 0
  double seconds = 0;
};

struct LoadedInput {
  const PredictInput* input;
  Image image;
  std::optional<FrameTime> frame = {};  // for a frame of a video
};

struct PredictInputs {
  std::vector<PredictInput> images;   // with distinct names
  std::vector<std::string> problems;  // folders that cannot be read or hold no images
  std::vector<std::string> notes;     // about other files in the folders, and flags without effect
};
// Returns the images and videos that the arguments name: files and addresses of streams (no others) as they
// are, "-" as the standard input; folders (without their videos) and shell patterns (unless a file has that
// name) expanded in alphabetical order. Whether a file is an image shows only when it is read.
PredictInputs collect_inputs(const std::vector<std::string>& arguments, bool recursive);

// Chooses names for the pictures in the folder `output`: "photo.png" for photo.jpg, or "photo_2.png" if that
// name belongs to another picture, or to a file that predict has not drawn or is about to read, which stays.
class PictureNames {
 public:
  PictureNames(std::string output, const std::vector<PredictInput>& images);
  // `stem`: relative to the folder, without extension
  std::string name(const std::string& stem, const std::string& extension = ".png");
  // Removes the pictures that predict drew earlier and that would have the next names of this stem; returns
  // how many.
  int64_t remove_rest(const std::string& stem, const std::string& extension = ".png") const;
  // A note about the files that were in the way, or "".
  std::string note() const;

 private:
  // Whether a file is a drawing of ours, which a new one may replace.
  bool may_go(const std::string& path) const;

  std::string output_;
  std::set<std::pair<uint64_t, uint64_t>> inputs_;  // device and inode number of the files
  std::set<std::string> taken_;
  std::map<std::string, int> next_;  // of each stem, the first number that may be free
  std::string first_kept_, first_other_;
  size_t kept_ = 0;
};
// Whether a file exists that would be replaced (throws InputError if none can be written), and the first
// bytes of a regular file that is not a link; "" for anything else.
bool is_old_file(const std::string& path);
// Whether a file is replaced; throws InputError if its name has none of these endings.
bool replaces_file(const std::string& path, const std::vector<std::string>& endings);
std::string beginning_of(const std::string& path, size_t bytes);
// A file of metrics, detections or a page that the user named; empty if none.
class NamedFile {
 public:
  // Throws InputError if it would replace a file whose name has none of these endings.
  explicit NamedFile(std::string path, const std::vector<std::string>& endings = {".json"});
  // Also prints a line if it replaced a file.
  void write(std::string_view text) const;
  void tell_if_replaced() const;

 private:
  std::string path_;
  bool replaces_ = false;
};
// Throws InputError if the list of results would replace a file that predict did not write.
void check_list(const std::string& output, const std::string& name);

// Encodes a picture drawn by predict as a PNG file that says so; with a mask, the pixels outside it are
// transparent.
std::vector<uint8_t> encode_drawing(const Image& image, const Mask* opaque = nullptr);
// The same as a file of this format: "png", or "jpg" of a quality at which text stays sharp.
std::vector<uint8_t> encode_drawing(const Image& image, const std::string& format);
// The beginning of an image's or frame's entry in the list of results: "{"file_name": "clip.mp4", "frame": 3,
// "time": 0.12".
std::string list_entry(const PredictInput& input, const std::optional<FrameTime>& frame);
// Adds the mark of predict's drawings to the bytes of a PNG file.
std::vector<uint8_t> marked_as_drawn(std::vector<uint8_t> png);

// Reads the paths that a file lists, one per line. Throws InputError.
std::vector<std::string> listed_paths(const std::string& file);

// An image resized as for evaluation; `name` is used in messages.
struct SizedImage {
  Sample sample;
  Target target;
};
SizedImage sized_image(const Image& image, const std::string& name, const Augmentation& to_size);
Batch batch_of(std::vector<SizedImage> images, const Config& config);
// Resizes these images in the same way and makes a batch of them.
Batch batch_of(const std::vector<LoadedInput>& images, const Config& config);

// A temporary folder next to the results, in which each is made before it gets its name. Leftovers are
// removed at the end, and by signals.
class Workspace {
 public:
  explicit Workspace(const std::string& output);
  // Returns the path at which to write the result `name`; its folder exists.
  std::string file(const std::string& name) const;
  // Moves a result to its place, in a subfolder if the name says so; it inherits the permissions of a file
  // that it replaces.
  void publish(const std::string& name);
  // Names a result that describes the others. When the first of them is published, that of an earlier run is
  // removed from its place: until the new one is complete, none is better than one of other files. It
  // inherits the permissions.
  void withdraw_with_first(const std::string& name) { described_in_ = name; }

 private:
  void withdraw(const std::string& name);

  std::string output_, described_in_;
  MadeFolder folder_;  // of the results
  std::optional<TemporaryPath> path_;
  std::once_flag withdrawal_;
  std::map<std::string, std::filesystem::perms> withdrawn_;
};

}  // namespace saccade
