// Videos from files, cameras and streams: read frame by frame, and written with drawings on the frames.
// FFmpeg does this, if the program was built with its headers and its libraries are installed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/images/image.h"

namespace saccade {

// For --version: the version of FFmpeg, or that there is none.
std::string video_support();
// Explains why no video can be read here; empty if videos can be read.
std::string video_problem();

enum class VideoSource { kFile, kCamera, kStream };
// What a name on the command line stands for: a camera ("camera:0", "/dev/video0"), a stream
// ("rtsp://host/door"), or a file, by the ending of its name or, unless that is an image's, by its first
// bytes. Nothing for anything else.
std::optional<VideoSource> video_source(const std::string& name);
// Returns the name for results and messages: streams without the user name and password.
std::string shown_video_name(const std::string& name);
// Returns the stem for names of results: "clip" for a/clip.mp4, "camera_0", "door".
std::string video_stem(const std::string& name);

struct VideoInfo {
  ImageSize size;            // as shown: rotated as the file says
  double frames_per_second;  // on average; 0 if unknown
  int64_t frames = 0;        // approximate; 0 if unknown
  double pixel_aspect = 1;   // width of a shown pixel relative to its height
  std::string codec;         // "h264"
};

struct VideoFrame {
  Image image;
  int64_t number = 0;  // among all decoded frames, from 0
  double seconds = 0;  // since the beginning of the video
};

class VideoReader {
 public:
  // Reads every `every`-th frame. Throws InputError if there is no readable video.
  VideoReader(const std::string& name, int64_t every, int threads);
  ~VideoReader();

  const VideoInfo& info() const;
  // Returns nothing at the end, or after a signal (core/runtime/interrupt.h). Throws InputError if not a
  // single frame can be decoded.
  std::optional<VideoFrame> next();
  // Returns the defects that were found: "3 frames could not be decoded, ..."; empty if there were none.
  std::string losses() const;
  // The end of the last decoded frame, whether it was returned or not.
  double end_seconds() const;

 private:
  class Decoder;
  std::unique_ptr<Decoder> decoder_;
};

class VideoWriter {
 public:
  // Writes an MP4 file of frames of this size; odd sides get one more column or row, as H.264 requires.
  // Throws Error.
  VideoWriter(const std::string& path, const VideoInfo& info, int threads);
  ~VideoWriter();  // without finish() the file is unusable

  // Takes frames in order of time; one that is not later than the previous one is moved behind it.
  void write(const Image& image, double seconds);
  // The last frame is shown until end_seconds.
  void finish(double end_seconds);
  // Returns for example "h264 by libx264".
  std::string codec() const;

 private:
  class Encoder;
  std::unique_ptr<Encoder> encoder_;
};

// The end of the written files, by which they are recognised: an MP4 box that players skip.
inline constexpr std::string_view kVideoMark{
    "\0\0\0\x17"
    "freesaccade predict",
    23};
inline constexpr const char* kVideoExtension = ".mp4";

// FFmpeg's number for the colour matrix that a video of this height has unless it says otherwise.
int usual_color_space(int height);

}  // namespace saccade
