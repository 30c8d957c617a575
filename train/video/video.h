// Videos in files, of cameras and of streams: read frame by frame, and written with what was drawn on the
// frames. FFmpeg does it, where the program was built with its headers and its libraries are installed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/images/image.h"

namespace saccade {

// For --version: which FFmpeg, or that there is none.
std::string video_support();
// Why no video can be read here; "" where they can.
std::string video_problem();

enum class VideoSource { kFile, kCamera, kStream };
// What a name on the command line stands for: a camera ("camera:0", "/dev/video0"), a stream
// ("rtsp://host/door"), or a file by the ending of its name or, where that is none of an image, its first
// bytes. Nothing for anything else.
std::optional<VideoSource> video_source(const std::string& name);
// How it is called in results and messages: streams without the user's name and password.
std::string shown_video_name(const std::string& name);
// What a result may be called: "clip" of a/clip.mp4, "camera_0", "door".
std::string video_stem(const std::string& name);

struct VideoInfo {
  ImageSize size;            // as it is shown: turned as the file says
  double frames_per_second;  // on average; 0: unknown
  int64_t frames = 0;        // about so many; 0: unknown
  double pixel_aspect = 1;   // width of a pixel as it is shown, of its height
  std::string codec;         // "h264"
};

struct VideoFrame {
  Image image;
  int64_t number = 0;  // of all that were decoded, from 0
  double seconds = 0;  // since the video's beginning
};

class VideoReader {
 public:
  // Of every `every`-th frame. Throws InputError where there is no video that can be read.
  VideoReader(const std::string& name, int64_t every, int threads);
  ~VideoReader();

  const VideoInfo& info() const;
  // Nothing at the end, or after a signal (core/runtime/interrupt.h).
  // Throws InputError where no frame of all can be decoded.
  std::optional<VideoFrame> next();
  // What of it is not as it should be: "3 frames could not be decoded, ..."; "" where all is well.
  std::string losses() const;
  // When the last frame that was decoded ends, looked at or not.
  double end_seconds() const;

 private:
  class Decoder;
  std::unique_ptr<Decoder> decoder_;
};

class VideoWriter {
 public:
  // An MP4 file of frames of this size; odd sides get one more column or row, as H.264 wants it.
  // Throws Error.
  VideoWriter(const std::string& path, const VideoInfo& info, int threads);
  ~VideoWriter();  // without finish() the file is of no use

  // Frames in the order of their times; one that is not later than that before is moved behind it.
  void write(const Image& image, double seconds);
  // The last frame is shown until then.
  void finish(double end_seconds);
  // "h264 by libx264"
  std::string codec() const;

 private:
  class Encoder;
  std::unique_ptr<Encoder> encoder_;
};

// The end of the files that are written, by which they are known: a box of MP4 that players skip.
inline constexpr std::string_view kVideoMark{
    "\0\0\0\x17"
    "freesaccade predict",
    23};
inline constexpr const char* kVideoExtension = ".mp4";

// FFmpeg's number for the matrix of colours that a video of this height has when it does not say so.
int usual_color_space(int height);

}  // namespace saccade
