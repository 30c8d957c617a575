// Decides which names on the command line are videos.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "train/video/video.h"

namespace saccade {
namespace {

using namespace std::string_view_literals;
namespace fs = std::filesystem;

constexpr std::string_view kCamera = "camera:";

bool has_video_extension(const std::string& path) {
  constexpr std::array kExtensions{".mp4"sv,   ".m4v"sv,  ".mov"sv,  ".avi"sv,  ".mkv"sv,
                                   ".webm"sv,  ".mpg"sv,  ".mpeg"sv, ".ts"sv,   ".mts"sv,
                                   ".m2ts"sv,  ".wmv"sv,  ".flv"sv,  ".ogv"sv,  ".3gp"sv,
                                   ".mjpeg"sv, ".mjpg"sv, ".h264"sv, ".hevc"sv, ".ivf"sv};
  return std::ranges::find(kExtensions, lower_extension(path)) != kExtensions.end();
}

// Whether the name is like "rtsp://...", a source that others fill while it is read.
bool is_stream(const std::string& name) {
  constexpr std::array kSchemes{"rtsp://"sv, "rtsps://"sv, "rtmp://"sv, "rtmps://"sv,
                                "rtp://"sv,  "udp://"sv,   "tcp://"sv,  "srt://"sv};
  return std::ranges::any_of(kSchemes, [&](std::string_view scheme) { return name.starts_with(scheme); });
}

bool is_camera(const std::string& name) {
  if (name.starts_with(kCamera)) return true;
  constexpr unsigned kVideoDevices = 81;  // the major number of Video4Linux devices
  struct stat info {};
  if (::stat(name.c_str(), &info) == 0) return S_ISCHR(info.st_mode) && major(info.st_rdev) == kVideoDevices;
  return name.starts_with("/dev/video");
}

// Whether the file begins like one of the usual containers.
bool begins_as_video(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::string start;
  try {
    InputFile file(path, {"a video", UINT64_MAX});
    start.resize(std::min<uint64_t>(12, file.size()));
    file.read_at(start.data(), start.size(), 0);
  } catch (const InputError&) {
    return false;  // reported when it is read
  }
  if (start.size() < 12) return false;
  const std::string_view text = start, brand = text.substr(8, 4);
  if (text.substr(4, 4) == "ftyp")  // some of these are images
    return brand != "avif" && brand != "avis" && brand != "mif1" && !brand.starts_with("hei") &&
           !brand.starts_with("jp") && !brand.starts_with("jx");
  return text.starts_with("\x1A\x45\xDF\xA3"sv) || text.starts_with("FLV\x01"sv) ||
         text.starts_with("\0\0\x01\xBA"sv) || text.starts_with("\x30\x26\xB2\x75"sv) ||
         (text.starts_with("RIFF"sv) && text.substr(8, 4) == "AVI ");
}

}  // namespace

std::optional<VideoSource> video_source(const std::string& name) {
  if (is_stream(name)) return VideoSource::kStream;
  if (is_camera(name)) return VideoSource::kCamera;
  std::error_code error;
  // Other addresses are not supported, whatever their ending.
  if (fs::is_directory(name, error) || name.find("://") != std::string::npos) return std::nullopt;
  if (has_video_extension(name) ||
      (!has_image_extension(name) && !has_foreign_image_extension(name) && begins_as_video(name)))
    return VideoSource::kFile;
  return std::nullopt;
}

std::string shown_video_name(const std::string& name) {
  if (!is_stream(name)) return name;
  const size_t host = name.find("://") + 3, end = std::min(name.find_first_of("/?", host), name.size()),
               user = name.substr(0, end).rfind('@');
  return user == std::string::npos || user < host ? name : name.substr(0, host) + name.substr(user + 1);
}

std::string video_stem(const std::string& name) {
  std::string stem;
  if (name.starts_with(kCamera)) {
    stem = "camera_" + name.substr(kCamera.size());
  } else if (is_stream(name)) {
    stem = shown_video_name(name);
    stem = stem.substr(stem.find("://") + 3);
    stem = stem.substr(0, stem.find('?'));
    while (stem.ends_with('/')) stem.pop_back();
    stem = stem.substr(stem.rfind('/') + 1);  // all of it if there is no '/'
    if (stem.empty() || stem.starts_with('.')) stem = "stream";
  } else {
    return fs::path(name).stem().string();
  }
  constexpr std::string_view kOdd = "/:[]@";
  std::ranges::replace_if(
      stem, [&](char c) { return kOdd.find(c) != kOdd.npos; }, '_');
  return stem;
}

}  // namespace saccade
