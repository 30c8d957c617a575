#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "core/tensor/error.h"
#include "train/video/ffmpeg.h"
#include "train/video/video.h"

namespace saccade {
namespace {

constexpr AVRational kTimeBase{
    1, 60000};  // MPEG-4 allows 1/65535 at the finest; the usual frame rates are whole numbers of ticks

int64_t ticks(double seconds) { return std::llround(seconds * kTimeBase.den / kTimeBase.num); }

int even(int64_t side) { return static_cast<int>(side + side % 2); }

}  // namespace

class VideoWriter::Encoder {
 public:
  Encoder(const std::string& path, const VideoInfo& info, int threads) : path_(path), size_(info.size) {
    const Ffmpeg& f = ffmpeg();
    check(f.avformat_alloc_output_context2(&format_, nullptr, "mp4", nullptr));
    try {
      open(info, threads);
    } catch (...) {
      close();
      throw;
    }
  }
  ~Encoder() { close(); }
  Encoder& operator=(Encoder&&) = delete;

  void write(const Image& image, double seconds) {
    SACCADE_CHECK((ImageSize{image.height, image.width} == size_),
                  "[VideoWriter] a frame of {} x {} in a video of {} x {}", image.width, image.height,
                  size_.width, size_.height);
    for (int64_t y = 0; y < rgb_->height; ++y) {
      uint8_t* row = rgb_->data[0] + y * rgb_->linesize[0];
      std::memcpy(row, image.row(std::min(y, image.height - 1)), static_cast<size_t>(image.width) * 3);
      if (rgb_->width > image.width) std::memcpy(row + image.width * 3, row + image.width * 3 - 3, 3);
    }
    if (last_ != AV_NOPTS_VALUE) send(frame_.get());  // it turned out not to be the last
    check(ffmpeg().av_frame_make_writable(frame_.get()));
    conversion_.run(*rgb_, *frame_);
    const int64_t time = ticks(seconds);
    frame_->pts = last_ = last_ == AV_NOPTS_VALUE ? time : std::max(time, last_ + 1);
    frame_->quality = codec_->global_quality;
  }

  void finish(double end_seconds) {
    end_ = ticks(end_seconds);
    if (last_ != AV_NOPTS_VALUE) send(frame_.get());
    send(nullptr);
    check(ffmpeg().av_write_trailer(format_));
    check(ffmpeg().avio_closep(&format_->pb));
    std::ofstream file(path_, std::ios::binary | std::ios::app);
    file.write(kVideoMark.data(), static_cast<std::streamsize>(kVideoMark.size()));
    if (!file.flush()) fail("{}: cannot write the file", path_);
  }

  const std::string& codec() const { return name_; }

 private:
  struct Choice {
    const char *encoder, *codec;
  };

  void open(const VideoInfo& info, int threads) {
    const Ffmpeg& f = ffmpeg();
    std::string problem = "this FFmpeg has no encoder for MP4";
    for (const auto& [encoder, codec] :
         {Choice{"libx264", "h264"}, Choice{"libopenh264", "h264"}, Choice{"mpeg4", "mpeg4"}}) {
      const AVCodec* found = f.avcodec_find_encoder_by_name(encoder);
      if (!found) continue;
      const int opened = open_encoder(*found, info, threads);
      if (opened >= 0) {
        name_ = fmt::format("{} by {}", codec, encoder);
        break;
      }
      codec_.reset();
      problem = fmt::format("{} does not encode {} x {} pixels: {}", encoder, size_.width, size_.height,
                            ffmpeg_error(opened));
    }
    if (!codec_) fail("{}: cannot write the video: {}", path_, problem);
    stream_ = f.avformat_new_stream(format_, nullptr);
    packet_ = owned(f.av_packet_alloc());
    if (!stream_) throw std::bad_alloc();
    check(f.avcodec_parameters_from_context(stream_->codecpar, codec_.get()));
    stream_->time_base = kTimeBase;
    stream_->avg_frame_rate = codec_->framerate;
    stream_->sample_aspect_ratio = codec_->sample_aspect_ratio;
    check(f.avio_open2(&format_->pb, ("file:" + path_).c_str(), AVIO_FLAG_WRITE, nullptr, nullptr));
    check(f.avformat_write_header(format_, nullptr));
    frame_ = new_frame(codec_->width, codec_->height, codec_->pix_fmt);
    frame_->colorspace = codec_->colorspace;
    frame_->color_range = codec_->color_range;
    frame_->sample_aspect_ratio = codec_->sample_aspect_ratio;
    rgb_ = new_frame(codec_->width, codec_->height, AV_PIX_FMT_RGB24);
  }

  int open_encoder(const AVCodec& encoder, const VideoInfo& info, int threads) {
    codec_ = owned(ffmpeg().avcodec_alloc_context3(&encoder));
    codec_->width = even(size_.width);
    codec_->height = even(size_.height);
    codec_->pix_fmt = AV_PIX_FMT_YUV420P;
    codec_->colorspace = static_cast<AVColorSpace>(usual_color_space(codec_->height));
    codec_->color_range = AVCOL_RANGE_MPEG;
    codec_->time_base = kTimeBase;
    const double rate = info.frames_per_second > 0 ? std::clamp(info.frames_per_second, 0.01, 1000.0) : 25;
    codec_->framerate = {static_cast<int>(std::lround(rate * 1000)), 1000};
    codec_->sample_aspect_ratio = {
        static_cast<int>(std::lround(std::clamp(info.pixel_aspect, 0.01, 100.0) * 1000)), 1000};
    codec_->max_b_frames =
        0;  // so that the last frame is also the last in the file, whose end counts for MP4
    codec_->thread_count = std::clamp(threads, 1, 16);
    if (format_->oformat->flags & AVFMT_GLOBALHEADER) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    constexpr int kQuality = 3;  // on MPEG-4's scale from 2 to 31
    codec_->flags |= AV_CODEC_FLAG_QSCALE;
    codec_->global_quality = FF_QP2LAMBDA * kQuality;
    FfmpegOptions options;  // options that an encoder does not know are ignored
    options.set("preset", "veryfast");
    options.set("crf", "20");
    return ffmpeg().avcodec_open2(codec_.get(), &encoder, options.get());
  }

  // Null means the end.
  void send(const AVFrame* frame) {
    const Ffmpeg& f = ffmpeg();
    check(f.avcodec_send_frame(codec_.get(), frame));
    for (;;) {
      const int got = f.avcodec_receive_packet(codec_.get(), packet_.get());
      if (got == AVERROR(EAGAIN) || got == AVERROR_EOF) return;
      check(got);
      // Other frames last until the next one.
      if (packet_->pts == last_ && end_ > last_)
        packet_->duration = end_ - last_;
      else if (packet_->duration <= 0)
        packet_->duration = f.av_rescale_q(1, {codec_->framerate.den, codec_->framerate.num}, kTimeBase);
      f.av_packet_rescale_ts(packet_.get(), kTimeBase, stream_->time_base);
      packet_->stream_index = stream_->index;
      check(f.av_interleaved_write_frame(format_, packet_.get()));
    }
  }

  void close() {
    if (!format_) return;
    if (format_->pb) ffmpeg().avio_closep(&format_->pb);
    ffmpeg().avformat_free_context(format_);
    format_ = nullptr;
  }

  void check(int code) const {
    if (code == AVERROR(ENOMEM)) throw std::bad_alloc();
    if (code < 0) fail("{}: cannot write the video: {}", path_, ffmpeg_error(code));
  }

  std::string path_, name_;
  ImageSize size_;
  AVFormatContext* format_ = nullptr;
  AVStream* stream_ = nullptr;
  FfmpegPointer<AVCodecContext> codec_;
  FfmpegPointer<AVPacket> packet_;
  FfmpegPointer<AVFrame> frame_, rgb_;
  PixelConversion conversion_;
  int64_t last_ = AV_NOPTS_VALUE, end_ = AV_NOPTS_VALUE;  // time and end of the last frame
};

VideoWriter::VideoWriter(const std::string& path, const VideoInfo& info, int threads)
    : encoder_(std::make_unique<Encoder>(path, info, threads)) {}
VideoWriter::~VideoWriter() = default;
void VideoWriter::write(const Image& image, double seconds) { encoder_->write(image, seconds); }
void VideoWriter::finish(double end_seconds) { encoder_->finish(end_seconds); }
std::string VideoWriter::codec() const { return encoder_->codec(); }

}  // namespace saccade
