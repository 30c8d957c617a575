#include "train/video/ffmpeg.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor/error.h"
#include "train/video/video.h"

namespace saccade {
namespace {

// AVCOL_SPC numbers equal those of swscale's colour matrices as far as both have them.
int color_space(const AVFrame& frame) {
  constexpr std::array kKnown{AVCOL_SPC_BT709,     AVCOL_SPC_FCC,       AVCOL_SPC_BT470BG,
                              AVCOL_SPC_SMPTE170M, AVCOL_SPC_SMPTE240M, AVCOL_SPC_BT2020_NCL};
  if (std::ranges::find(kKnown, frame.colorspace) != kKnown.end()) return frame.colorspace;
  return usual_color_space(frame.height);
}

bool has_full_range(const AVFrame& frame) {
  constexpr std::array kFull{AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUVJ444P,
                             AV_PIX_FMT_YUVJ440P, AV_PIX_FMT_RGB24};
  return frame.color_range == AVCOL_RANGE_JPEG ||
         std::ranges::find(kFull, static_cast<AVPixelFormat>(frame.format)) != kFull.end();
}

// Opens one of FFmpeg's libraries in the version of the headers, whose number is part of its name.
OpenedLibrary open_part(const char* name, int major) {
  const std::string file = fmt::format("lib{}.so.{}", name, major);
  std::string problem;
  if (std::optional<OpenedLibrary> library = OpenedLibrary::open("FFmpeg", file, problem)) return *library;
  fail_input("videos need FFmpeg's libraries: {}; Debian's package is lib{}{} (apt install ffmpeg)", problem,
             name, major);
}

void check_version(const char* name, unsigned version, unsigned major) {
  if (version >> 16 != major)
    fail_input("FFmpeg's lib{} is version {}, the program was built for {}", name, version >> 16, major);
}

}  // namespace

int usual_color_space(int height) { return height >= 720 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M; }

Ffmpeg::Ffmpeg() {
  const OpenedLibrary util = open_part("avutil", LIBAVUTIL_VERSION_MAJOR);
  const OpenedLibrary codec = open_part("avcodec", LIBAVCODEC_VERSION_MAJOR);
  const OpenedLibrary format = open_part("avformat", LIBAVFORMAT_VERSION_MAJOR);
  const OpenedLibrary scale = open_part("swscale", LIBSWSCALE_VERSION_MAJOR);
  const OpenedLibrary* from = &util;
#define SACCADE_FUNCTION(name) name = reinterpret_cast<decltype(name)>(from->symbol<void>(#name));
  SACCADE_AVUTIL(SACCADE_FUNCTION)
  from = &codec;
  SACCADE_AVCODEC(SACCADE_FUNCTION)
  from = &scale;
  SACCADE_SWSCALE(SACCADE_FUNCTION)
  from = &format;
  SACCADE_AVFORMAT(SACCADE_FUNCTION)
#if LIBAVFORMAT_VERSION_MAJOR < 61
  SACCADE_FUNCTION(av_stream_get_side_data)
#endif
#undef SACCADE_FUNCTION
  check_version("avutil", avutil_version(), LIBAVUTIL_VERSION_MAJOR);
  check_version("avcodec", avcodec_version(), LIBAVCODEC_VERSION_MAJOR);
  check_version("avformat", avformat_version(), LIBAVFORMAT_VERSION_MAJOR);
  check_version("swscale", swscale_version(), LIBSWSCALE_VERSION_MAJOR);
  av_log_set_level(AV_LOG_QUIET);  // problems are reported by us, in one line
}

const Ffmpeg& ffmpeg() {
  static const Ffmpeg functions;
  return functions;
}

void open_camera_library() {
  // Its number has always been that of libavformat, and its headers, with everything that Debian installs
  // with them, would serve for one line.
  static const OpenedLibrary library = open_part("avdevice", LIBAVFORMAT_VERSION_MAJOR);
  static const auto register_all = library.symbol<void()>("avdevice_register_all");
  register_all();
}

std::string ffmpeg_error(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = "";
  ffmpeg().av_strerror(code, text, sizeof text);
  return text;
}

std::string video_support() {
  return fmt::format("FFmpeg, opened when needed: libavformat.so.{}, libavcodec.so.{}",
                     LIBAVFORMAT_VERSION_MAJOR, LIBAVCODEC_VERSION_MAJOR);
}

std::string video_problem() {
  try {
    ffmpeg();
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

FfmpegPointer<AVFrame> new_frame(int width, int height, AVPixelFormat format) {
  FfmpegPointer<AVFrame> frame = owned(ffmpeg().av_frame_alloc());
  frame->width = width;
  frame->height = height;
  frame->format = format;
  if (ffmpeg().av_frame_get_buffer(frame.get(), 0) < 0) throw std::bad_alloc();
  return frame;
}

void PixelConversion::run(const AVFrame& from, AVFrame& to) {
  const Ffmpeg& f = ffmpeg();
  const std::array<int, 10> wanted{from.width,           from.height,       from.format, color_space(from),
                                   has_full_range(from), to.width,          to.height,   to.format,
                                   color_space(to),      has_full_range(to)};
  if (!context_ || wanted != made_for_) {
    context_.reset(f.sws_getContext(from.width, from.height, static_cast<AVPixelFormat>(from.format),
                                    to.width, to.height, static_cast<AVPixelFormat>(to.format),
                                    SWS_BILINEAR | SWS_ACCURATE_RND, nullptr, nullptr, nullptr));
    if (!context_) fail("a video's pixels of {} x {} cannot be converted", from.width, from.height);
    constexpr int kOne = 1 << 16;  // contrast and saturation, in fixed point
    // Fails for pixel formats without colours, which do not need it.
    f.sws_setColorspaceDetails(context_.get(), f.sws_getCoefficients(color_space(from)), has_full_range(from),
                               f.sws_getCoefficients(color_space(to)), has_full_range(to), 0, kOne, kOne);
    made_for_ = wanted;
  }
  const int rows =
      f.sws_scale(context_.get(), from.data, from.linesize, 0, from.height, to.data, to.linesize);
  if (rows < 0) fail("a video's pixels cannot be converted: {}", ffmpeg_error(rows));
}

}  // namespace saccade
