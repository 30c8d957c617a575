// FFmpeg's libraries, opened when the first video is read or written: with their dependencies they are some
// 130 files, which no other command should wait for. This header and the sources that include it are only
// part of builds with FFmpeg's headers.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/error.h>
#include <libswscale/swscale.h>
}

#include <array>
#include <memory>
#include <new>
#include <string>

#include "core/runtime/opened_library.h"

namespace saccade {

// The functions that are used, by library.
// clang-format off
#define SACCADE_AVUTIL(F)                                                                 \
  F(avutil_version) F(av_strerror) F(av_log_set_level) F(av_frame_alloc) F(av_frame_free) \
  F(av_frame_get_buffer) F(av_frame_make_writable) F(av_dict_set) F(av_dict_free)         \
  F(av_display_rotation_get) F(av_rescale_q)
#define SACCADE_AVCODEC(F)                                                                              \
  F(avcodec_version) F(avcodec_find_decoder) F(avcodec_find_encoder_by_name) F(avcodec_alloc_context3)  \
  F(avcodec_free_context) F(avcodec_parameters_to_context) F(avcodec_parameters_from_context)           \
  F(avcodec_open2) F(avcodec_send_packet) F(avcodec_receive_frame) F(avcodec_send_frame)                \
  F(avcodec_receive_packet) F(avcodec_get_name) F(av_packet_alloc) F(av_packet_free) F(av_packet_unref) \
  F(av_packet_rescale_ts)
#define SACCADE_AVFORMAT(F)                                                                           \
  F(avformat_version) F(avformat_alloc_context) F(avformat_free_context) F(avformat_open_input)       \
  F(avformat_close_input) F(avformat_find_stream_info) F(av_find_best_stream) F(av_find_input_format) \
  F(av_guess_frame_rate) F(av_read_frame) F(avformat_alloc_output_context2) F(avformat_new_stream)    \
  F(avformat_write_header) F(av_interleaved_write_frame) F(av_write_trailer) F(avio_open2)            \
  F(avio_closep)
#define SACCADE_SWSCALE(F)                                                                    \
  F(swscale_version) F(sws_getContext) F(sws_freeContext) F(sws_scale) F(sws_getCoefficients) \
  F(sws_setColorspaceDetails)
// clang-format on

class Ffmpeg {
 public:
  Ffmpeg& operator=(Ffmpeg&&) = delete;

#define SACCADE_FUNCTION(name) decltype(&::name) name;
  SACCADE_AVUTIL(SACCADE_FUNCTION)
  SACCADE_AVCODEC(SACCADE_FUNCTION)
  SACCADE_AVFORMAT(SACCADE_FUNCTION)
  SACCADE_SWSCALE(SACCADE_FUNCTION)
#if LIBAVFORMAT_VERSION_MAJOR < 61
  SACCADE_FUNCTION(av_stream_get_side_data)
#endif
#undef SACCADE_FUNCTION

 private:
  friend const Ffmpeg& ffmpeg();
  Ffmpeg();
};

// Opens the libraries at the first call. Throws InputError if they are missing, or differ from those the
// program was built for.
const Ffmpeg& ffmpeg();
// Makes cameras available; they are in a separate library.
void open_camera_library();

// Returns for example "Invalid data found when processing input".
std::string ffmpeg_error(int code);

// Frees objects made by FFmpeg.
struct FfmpegFree {
  void operator()(AVFrame* frame) const { ffmpeg().av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { ffmpeg().av_packet_free(&packet); }
  void operator()(AVCodecContext* context) const { ffmpeg().avcodec_free_context(&context); }
  void operator()(SwsContext* context) const { ffmpeg().sws_freeContext(context); }
};
template <class T>
using FfmpegPointer = std::unique_ptr<T, FfmpegFree>;

// Throws std::bad_alloc for null.
template <class T>
FfmpegPointer<T> owned(T* made) {
  if (!made) throw std::bad_alloc();
  return FfmpegPointer<T>(made);
}

// Options of FFmpeg by name; afterwards, those that it did not take are left.
class FfmpegOptions {
 public:
  FfmpegOptions() = default;
  ~FfmpegOptions() { ffmpeg().av_dict_free(&options_); }
  FfmpegOptions& operator=(FfmpegOptions&&) = delete;

  void set(const char* name, const std::string& value) {
    if (ffmpeg().av_dict_set(&options_, name, value.c_str(), 0) < 0) throw std::bad_alloc();
  }
  AVDictionary** get() { return &options_; }

 private:
  AVDictionary* options_ = nullptr;
};

// Converts pixels to another format, size and colour space. The context is created anew if these change.
class PixelConversion {
 public:
  // Both frames have buffers. Throws Error.
  void run(const AVFrame& from, AVFrame& to);

 private:
  FfmpegPointer<SwsContext> context_;
  std::array<int, 10> made_for_{};
};

// Allocates a frame with memory for its pixels; conversions may write somewhat beyond the end of a row.
FfmpegPointer<AVFrame> new_frame(int width, int height, AVPixelFormat format);

}  // namespace saccade
