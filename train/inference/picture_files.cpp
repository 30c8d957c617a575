#include "train/inference/picture_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/files/file.h"
#include "core/files/output_file.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "data/loading/loader.h"
#include "train/config/options.h"
#include "train/logs/print.h"
#include "train/video/video.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

using namespace std::string_view_literals;

// PNG's tEXt chunk "Software", section 11.3.4.3, with its length and checksum, and its position: after the
// header.
constexpr std::string_view kDrawnByUs = "\0\0\0\x18tEXtSoftware\0saccade predict\x06\xab\x14\xdc"sv;
constexpr size_t kAfterPngHeader = 33;
// A JPEG comment (COM) with its length, and its position: after the JFIF header.
constexpr std::string_view kJpegDrawnByUs = "\xFF\xFE\0\x11saccade predict"sv;
constexpr size_t kAfterJpegHeader = 20;

// Device and inode number of a file; nothing if it does not exist.
std::optional<std::pair<uint64_t, uint64_t>> identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return std::pair{info.st_dev, info.st_ino};
}

std::string ending_of(const std::string& path, size_t bytes) {
  try {
    InputFile file(path, {"a file", UINT64_MAX});
    std::string end(std::min<uint64_t>(bytes, file.size()), '\0');
    file.read_at(end.data(), end.size(), file.size() - end.size());
    return end;
  } catch (const InputError&) {
    return "";
  }
}

bool is_drawn_by_us(const std::string& path) {
  if (lower_extension(path) == kVideoExtension) return ending_of(path, kVideoMark.size()) == kVideoMark;
  const std::string start = beginning_of(path, kAfterPngHeader + kDrawnByUs.size());
  return start.size() > kAfterPngHeader &&
         (start.substr(kAfterPngHeader) == kDrawnByUs ||
          std::string_view(start).substr(kAfterJpegHeader).starts_with(kJpegDrawnByUs));
}

// Shortens the stem so that it fits into a file name with `more` bytes after it, without cutting a UTF-8
// character.
std::string shortened_stem(const std::string& stem, size_t more) {
  constexpr size_t kLongestName = 255;
  if (stem.size() + more <= kLongestName) return stem;
  size_t end = kLongestName - more;
  while (end > 0 && (static_cast<unsigned char>(stem[end]) & 0xC0) == 0x80) --end;
  return stem.substr(0, end);
}

// Returns "photo.png", "photo_2.png" ...
std::string numbered(const std::string& stem, int number, const std::string& extension) {
  const std::string end = number == 1 ? extension : fmt::format("_{}{}", number, extension);
  const fs::path path(stem);
  return (path.parent_path() / (shortened_stem(path.filename().string(), end.size()) + end)).string();
}

}  // namespace

std::string crop_stem(const PredictInput& input) {
  return "crops/" + fs::path(input.picture.empty() ? input.path : input.picture).stem().string();
}

bool is_old_file(const std::string& path) {
  const OutputTarget target = output_target(path);
  return target.old && !target.is_device && target.descriptor < 0;
}

bool replaces_file(const std::string& path, const std::vector<std::string>& endings) {
  if (!is_old_file(path)) return false;
  if (std::ranges::find(endings, lower_extension(path)) == endings.end())
    fail_input("{}: already exists, and its name does not end in {}; expected another name", path,
               endings[0]);
  return true;
}

std::string beginning_of(const std::string& path, size_t bytes) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return "";
  try {
    InputFile file(path, {"a file", UINT64_MAX});
    std::string start(std::min<uint64_t>(bytes, file.size()), '\0');
    file.read_at(start.data(), start.size(), 0);
    return start;
  } catch (const InputError&) {
    return "";
  }
}

NamedFile::NamedFile(std::string path, const std::vector<std::string>& endings) : path_(std::move(path)) {
  if (path_.empty() || !is_old_file(path_)) return;
  std::error_code error;
  const bool is_name_alone = fs::file_size(output_target(path_).path, error) == 0;  // created for the output
  replaces_ = !is_name_alone && replaces_file(path_, endings);
}

void NamedFile::write(std::string_view text) const {
  if (path_.empty()) return;
  write_file(path_, text);
  tell_if_replaced();
}

void NamedFile::tell_if_replaced() const {
  if (replaces_) print_line("{}: replaces an existing file", path_);
}

PictureNames::PictureNames(std::string output, const std::vector<PredictInput>& images)
    : output_(std::move(output)) {
  for (const PredictInput& input : images)
    if (auto file = identity(input.path)) inputs_.insert(*file);
}

std::string PictureNames::name(const std::string& stem, const std::string& extension) {
  std::string picture, in_the_way;
  int& i = next_.try_emplace(stem + extension, 1)
               .first->second;  // earlier numbers are taken, or belong to files that were counted
  for (;; ++i) {
    picture = numbered(stem, i, extension);
    if (taken_.contains(picture)) continue;
    const std::string path = output_ + "/" + picture;
    if (!is_there(path)) break;
    if (may_go(path)) break;
    if (in_the_way.empty()) in_the_way = picture;
  }
  taken_.insert(picture);
  if (!in_the_way.empty() && kept_++ == 0) {
    first_kept_ = in_the_way;
    first_other_ = picture;
  }
  return picture;
}

bool PictureNames::may_go(const std::string& path) const {
  const auto file = identity(path);
  return is_drawn_by_us(path) && !(file && inputs_.contains(*file));
}

int64_t PictureNames::remove_rest(const std::string& stem, const std::string& extension) const {
  int64_t removed = 0;
  for (int i = 1;; ++i) {
    const std::string picture = numbered(stem, i, extension), path = output_ + "/" + picture;
    if (taken_.contains(picture)) continue;
    std::error_code error;
    if (!is_there(path)) return removed;
    if (may_go(path)) removed += fs::remove(path, error);
  }
}

std::string PictureNames::note() const {
  if (kept_ == 0) return "";
  std::string others = kept_ == 1 ? "" : fmt::format(" (and {} more files like this)", kept_ - 1);
  return fmt::format("{}: {} already exists and is kept; the picture is {}{}", output_, first_kept_,
                     first_other_, others);
}

void check_list(const std::string& output, const std::string& name) {
  const std::string path = output + "/" + name;
  if (!is_there(path)) return;
  constexpr std::string_view kBegin = "[\n{\"file_name\": ", kEmpty = "[\n]\n";
  const std::string start = beginning_of(path, kBegin.size());
  if (start != kBegin && start != kEmpty)
    fail_input("{}: already exists and is not from saccade predict, expected another --output", path);
}

std::string list_entry(const PredictInput& input, const std::optional<FrameTime>& frame) {
  std::string text = fmt::format("{{\"file_name\": {}", json_quote(input.name));
  constexpr double kMicro = 1e6;
  if (frame)
    text += fmt::format(", \"frame\": {}, \"time\": {}", frame->number,
                        std::round(frame->seconds * kMicro) / kMicro);
  return text;
}

std::vector<uint8_t> encode_drawing(const Image& image, const Mask* opaque) {
  return marked_as_drawn(opaque ? encode_png(image, *opaque) : encode_png(image));
}

std::vector<uint8_t> encode_drawing(const Image& image, const std::string& format) {
  if (format != "jpg") return encode_drawing(image);
  constexpr int kQuality = 92;
  std::vector<uint8_t> jpeg = encode_jpeg(image, kQuality);
  jpeg.insert(jpeg.begin() + kAfterJpegHeader, kJpegDrawnByUs.begin(), kJpegDrawnByUs.end());
  return jpeg;
}

std::vector<uint8_t> marked_as_drawn(std::vector<uint8_t> png) {
  png.insert(png.begin() + kAfterPngHeader, kDrawnByUs.begin(), kDrawnByUs.end());
  return png;
}

std::vector<std::string> listed_paths(const std::string& file) {
  constexpr FileKind kListFile{"a list of paths", uint64_t{1} << 30};
  std::vector<std::string> paths;
  std::istringstream lines(read_text(file, kListFile));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) paths.push_back(line);
  }
  if (paths.empty()) fail_input("{}: lists no images, expected one path per line", file);
  return paths;
}

SizedImage sized_image(const Image& image, const std::string& name, const Augmentation& to_size) {
  Sample sample;
  sample.image = image;
  Rng unused(0);
  SizedImage sized{augment(std::move(sample), to_size, unused), {}};
  sized.target = make_target(sized.sample, {image.height, image.width});
  sized.target.file_name = name;
  return sized;
}

Batch batch_of(std::vector<SizedImage> images, const Config& config) {
  std::vector<Sample> samples;
  std::vector<Target> targets;
  for (SizedImage& image : images) {
    samples.push_back(std::move(image.sample));
    targets.push_back(std::move(image.target));
  }
  return collate(samples, std::move(targets), config.data().pad_multiple());
}

Batch batch_of(const std::vector<LoadedInput>& images, const Config& config) {
  const Augmentation to_size = eval_augment(config);
  std::vector<SizedImage> sized;
  for (const LoadedInput& loaded : images)
    sized.push_back(sized_image(loaded.image, loaded.input->path, to_size));
  return batch_of(std::move(sized), config);
}

Workspace::Workspace(const std::string& output) : output_(output), folder_(output) {
  path_.emplace(make_own_folder((fs::path(output) / ".predict").string()));
}

std::string Workspace::file(const std::string& name) const {
  const fs::path path = fs::path(path_->path()) / name;
  std::error_code error;  // reported by the code that writes there
  if (fs::path(name).has_parent_path()) fs::create_directories(path.parent_path(), error);
  return path.string();
}

void Workspace::publish(const std::string& name) {
  // The earlier list goes before the first new file, unless that is the new list.
  if (!described_in_.empty())
    std::call_once(withdrawal_, [&] {
      if (name != described_in_) withdraw(described_in_);
    });
  const fs::path from = file(name), to = fs::path(output_) / name;
  std::error_code error;
  if (fs::path(name).has_parent_path()) fs::create_directories(to.parent_path(), error);
  const fs::file_status old = fs::status(to, error);
  const auto earlier = withdrawn_.find(name);
  if (fs::is_regular_file(old))
    fs::permissions(from, old.permissions(), error);
  else if (earlier != withdrawn_.end())
    fs::permissions(from, earlier->second, error);
  fs::rename(from, to, error);
  if (error) fail("{}: cannot write the file: {}", to.string(), error.message());
}

void Workspace::withdraw(const std::string& name) {
  const fs::path path = fs::path(output_) / name;
  std::error_code error;
  const fs::file_status old = fs::symlink_status(path, error);
  if (!fs::exists(old)) return;
  withdrawn_[name] = old.permissions();
  fs::remove(path, error);
  if (error) fail_input("{}: cannot remove the file: {}", path.string(), error.message());
}

}  // namespace saccade
