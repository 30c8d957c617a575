#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "data/images/orientation.h"
#include "train/video/ffmpeg.h"
#include "train/video/frame_times.h"
#include "train/video/video.h"

namespace saccade {
namespace {

// Containers with their own content; lists of other files and addresses (HLS, concat) are excluded.
constexpr std::string_view kContainers =
    "mov,mp4,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,mjpeg,flv,asf,ogg,ivf,nut,mxf,dv,obu,av1";
constexpr auto kSilence = std::chrono::seconds(20);  // after which a camera or stream is abandoned

using Clock = std::chrono::steady_clock;

// Returns the rotation of the picture as an EXIF orientation, from the matrix that a container may have for
// its stream.
int orientation_of(const AVStream& stream) {
  const int32_t* matrix = nullptr;
#if LIBAVFORMAT_VERSION_MAJOR < 61
  matrix = reinterpret_cast<const int32_t*>(
      ffmpeg().av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr));
#else
  for (int i = 0; i < stream.codecpar->nb_coded_side_data; ++i)
    if (stream.codecpar->coded_side_data[i].type == AV_PKT_DATA_DISPLAYMATRIX)
      matrix = reinterpret_cast<const int32_t*>(stream.codecpar->coded_side_data[i].data);
#endif
  const double angle = matrix ? ffmpeg().av_display_rotation_get(matrix) : 0;  // counterclockwise; NaN: none
  if (!std::isfinite(angle)) return 1;
  constexpr std::array kByQuarters{1, 8, 3, 6};
  return kByQuarters.at(static_cast<size_t>(std::lround(angle / 90) % 4 + 4) % 4);
}

double seconds_of(int64_t time, AVRational base) { return static_cast<double>(time) * base.num / base.den; }

}  // namespace

class VideoReader::Decoder {
 public:
  Decoder(const std::string& name, int64_t every, int threads)
      : name_(shown_video_name(name)),
        every_(every),
        source_(video_source(name).value_or(VideoSource::kFile)) {
    if (const std::string problem = video_problem(); !problem.empty()) fail_input("{}: {}", name_, problem);
    // Checks a file like other input files.
    if (source_ == VideoSource::kFile && InputFile(name, {"a video", UINT64_MAX}).size() == 0)
      fail_input("{}: is empty, expected a video", name_);
    open(name);
    try {
      open_decoder(threads);
    } catch (...) {
      ffmpeg().avformat_close_input(&format_);
      throw;
    }
  }
  ~Decoder() { ffmpeg().avformat_close_input(&format_); }
  Decoder& operator=(Decoder&&) = delete;

  const VideoInfo& info() const { return info_; }

  std::optional<VideoFrame> next() {
    while (decode()) {
      const int64_t number = decoded_++;
      const double seconds = time_of(*frame_);
      if ((frame_->flags & AV_FRAME_FLAG_CORRUPT) || frame_->decode_error_flags) ++damaged_;
      if (number % every_ == 0) return VideoFrame{converted(*frame_), number, seconds};
    }
    if (decoded_ == 0 && interrupt_signal() == 0)
      fail_input(
          "{}: no frame of this video can be decoded{}", name_,
          undecodable_ > 0 ? ": " + count_of(undecodable_, "damaged frame", "damaged frames") : end_problem_);
    return std::nullopt;
  }

  // The header states more precisely how long the last frame is shown, except for a video that is cut off.
  double end_seconds() const {
    return ended_ && std::abs(missing_seconds()) <= kSlack * frame_seconds() ? expected_end_ : times_.end();
  }

  std::string losses() const {
    std::vector<std::string> parts;
    if (undecodable_ > 0)
      parts.push_back(count_of(undecodable_, "frame", "frames") + " could not be decoded");
    if (damaged_ > 0) parts.push_back(count_of(damaged_, "damaged frame", "damaged frames"));
    if (resized_ > 0)
      parts.push_back(fmt::format("{} of another size, resized to {} x {}",
                                  count_of(resized_, "frame", "frames"), info_.size.width,
                                  info_.size.height));
    if (times_.steps_back() > 0)
      parts.push_back(fmt::format(
          "time stamps go back at frame {}{}, as in joined recordings; times continue from the frame before",
          times_.first_step_back(),
          times_.steps_back() > 1 ? fmt::format(" and at {} more", times_.steps_back() - 1) : ""));
    if (!end_problem_.empty()) parts.push_back("it ends early" + end_problem_);
    // According to the header there should be more.
    if (end_problem_.empty() && interrupt_signal() == 0 && ended_ &&
        missing_seconds() > kSlack * frame_seconds())
      parts.push_back(fmt::format("it ends early, at {:.2f} of {:.2f} seconds", times_.end(), expected_end_));
    return parts.empty() ? "" : fmt::format("{}", fmt::join(parts, ", "));
  }

 private:
  static constexpr double kSlack = 1.5;  // frames by which a header may be wrong

  double missing_seconds() const { return expected_end_ - times_.end(); }

  void open(const std::string& name) {
    const Ffmpeg& f = ffmpeg();
    FfmpegOptions options;
    const AVInputFormat* device = nullptr;
    std::string address = name;
    if (source_ == VideoSource::kFile) {
      address = "file:" + name;
      options.set("format_whitelist", std::string(kContainers));
      options.set("protocol_whitelist", "file");
    } else if (source_ == VideoSource::kCamera) {
      address = camera_device(name);
      try {
        open_camera_library();
      } catch (const InputError& error) {
        fail_input("{}: {}", name_, error.what());
      }
      device = f.av_find_input_format("video4linux2");
      if (!device) fail_input("{}: this FFmpeg cannot read cameras (video4linux2)", name_);
    } else {
      options.set("rtsp_transport", "tcp");  // lost datagrams would damage pictures
      options.set("format_whitelist", std::string(kContainers) + ",live_flv,rtsp,rtp,sdp");
      options.set("protocol_whitelist", "rtsp,rtp,udp,tcp,tls,rtmp,rtmps,srt,crypto");  // no local files
    }
    format_ = f.avformat_alloc_context();
    if (!format_) throw std::bad_alloc();
    format_->interrupt_callback = {
        [](void* decoder) { return static_cast<Decoder*>(decoder)->gives_up() ? 1 : 0; }, this};
    alive_ = Clock::now();
    // Frees the context on failure.
    check(
        f.avformat_open_input(&format_, address.c_str(), const_cast<AVInputFormat*>(device), options.get()));
  }

  static std::string camera_device(const std::string& name) {
    constexpr std::string_view kNumbered = "camera:";
    if (!name.starts_with(kNumbered)) return name;
    const std::string number = name.substr(kNumbered.size());
    if (number.empty() || number.size() > 3 ||
        !std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; }))
      fail_input("{}: no such camera, expected a number such as camera:0", name);
    return "/dev/video" + number;
  }

  void open_decoder(int threads) {
    const Ffmpeg& f = ffmpeg();
    check(f.avformat_find_stream_info(format_, nullptr));
    const AVCodec* codec = nullptr;
    const int index = f.av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (index < 0) fail_input("{}: has no video stream that can be decoded, expected a video", name_);
    stream_ = format_->streams[index];
    if (stream_->disposition & AV_DISPOSITION_ATTACHED_PIC)
      fail_input("{}: has a cover image, but no video stream, expected a video", name_);
    for (unsigned i = 0; i < format_->nb_streams; ++i)
      if (static_cast<int>(i) != index) format_->streams[i]->discard = AVDISCARD_ALL;
    info_.codec = f.avcodec_get_name(stream_->codecpar->codec_id);
    codec = f.avcodec_find_decoder(stream_->codecpar->codec_id);
    if (!codec) fail_input("{}: this FFmpeg cannot decode its codec, {}", name_, info_.codec);
    codec_ = owned(f.avcodec_alloc_context3(codec));
    check(f.avcodec_parameters_to_context(codec_.get(), stream_->codecpar));
    codec_->thread_count = std::clamp(threads, 1, 4);
    codec_->max_pixels = kMaxImagePixels;
    codec_->pkt_timebase = stream_->time_base;
    check(f.avcodec_open2(codec_.get(), codec, nullptr));
    packet_ = owned(f.av_packet_alloc());
    frame_ = owned(f.av_frame_alloc());

    orientation_ = orientation_of(*stream_);
    stored_ = {stream_->codecpar->height, stream_->codecpar->width};
    if (stored_.height > 0 && stored_.width > 0)
      check_image_size(stored_.height, stored_.width, name_.c_str());
    info_.size = turned(stored_, orientation_);
    const AVRational rate = f.av_guess_frame_rate(format_, stream_, nullptr);
    if (rate.num > 0 && rate.den > 0) info_.frames_per_second = static_cast<double>(rate.num) / rate.den;
    if (const AVRational aspect = stream_->codecpar->sample_aspect_ratio; aspect.num > 0 && aspect.den > 0)
      info_.pixel_aspect = static_cast<double>(aspect.num) / aspect.den;
    if (orientation_ == 6 || orientation_ == 8) info_.pixel_aspect = 1 / info_.pixel_aspect;
    if (source_ == VideoSource::kFile) expect_length();
  }

  void expect_length() {
    bool has_sound = false;
    for (unsigned i = 0; i < format_->nb_streams; ++i)
      has_sound |= format_->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    if (stream_->duration != AV_NOPTS_VALUE)
      expected_end_ = seconds_of(stream_->duration, stream_->time_base);
    else if (format_->duration != AV_NOPTS_VALUE && !has_sound)  // which may be longer
      expected_end_ = static_cast<double>(format_->duration) / AV_TIME_BASE;
    info_.frames = stream_->nb_frames > 0 ? stream_->nb_frames
                                          : static_cast<int64_t>(expected_end_ * info_.frames_per_second);
  }

  // Decodes the next frame into frame_; returns false at the end.
  bool decode() {
    const Ffmpeg& f = ffmpeg();
    constexpr int kMaxFailures = 1000;  // in a row, without a packet between them
    for (int failures = 0; failures < kMaxFailures;) {
      const int got = f.avcodec_receive_frame(codec_.get(), frame_.get());
      if (got == 0) return true;
      if (got == AVERROR_EOF) break;
      if (got != AVERROR(EAGAIN)) {
        ++undecodable_;
        ++failures;
        continue;
      }
      if (draining_) break;
      if (!read_packet()) {
        draining_ = true;
        f.avcodec_send_packet(codec_.get(), nullptr);
        continue;
      }
      failures = 0;
      const int sent = f.avcodec_send_packet(codec_.get(), packet_.get());
      if (sent == AVERROR(ENOMEM)) throw std::bad_alloc();
      undecodable_ += sent < 0;
      f.av_packet_unref(packet_.get());
    }
    ended_ = true;
    return false;
  }

  // Reads the next packet of the pictures; returns false at the end.
  bool read_packet() {
    const Ffmpeg& f = ffmpeg();
    for (;;) {
      if (interrupt_signal() != 0) return false;
      const int read = f.av_read_frame(format_, packet_.get());
      if (read == AVERROR(EAGAIN)) {  // from a camera that has no picture yet
        if (gives_up()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      if (read < 0) {
        if (read != AVERROR_EOF && interrupt_signal() == 0) end_problem_ = fmt::format(": {}", reason(read));
        return false;
      }
      alive_ = Clock::now();
      if (packet_->stream_index == stream_->index) return true;
      f.av_packet_unref(packet_.get());
    }
  }

  double frame_seconds() const { return info_.frames_per_second > 0 ? 1 / info_.frames_per_second : 0.04; }

  double time_of(const AVFrame& frame) {
    std::optional<double> stamp;
    if (frame.best_effort_timestamp != AV_NOPTS_VALUE) {
      if (begin_ == AV_NOPTS_VALUE) {
        // The pictures of a file may begin after its sound, those of a stream at any time.
        const bool has_start = source_ == VideoSource::kFile && stream_->start_time != AV_NOPTS_VALUE;
        begin_ = has_start ? stream_->start_time : frame.best_effort_timestamp;
      }
      stamp = seconds_of(frame.best_effort_timestamp - begin_, stream_->time_base);
    }
#if LIBAVUTIL_VERSION_MAJOR >= 58
    const int64_t duration = frame.duration;
#else
    const int64_t duration = frame.pkt_duration;
#endif
    return times_.next(stamp, duration > 0 ? seconds_of(duration, stream_->time_base) : frame_seconds());
  }

  Image converted(const AVFrame& frame) {
    const ImageSize size{frame.height, frame.width};
    check_image_size(size.height, size.width, name_.c_str());
    if (!rgb_) {
      stored_ = size;
      info_.size = turned(size, orientation_);
      rgb_ = new_frame(frame.width, frame.height, AV_PIX_FMT_RGB24);
    }
    resized_ += size != stored_;
    conversion_.run(frame, *rgb_);
    Image image(stored_.height, stored_.width);
    for (int64_t y = 0; y < image.height; ++y)
      std::memcpy(image.row(y), rgb_->data[0] + y * rgb_->linesize[0], static_cast<size_t>(image.width) * 3);
    return turned(std::move(image), orientation_);
  }

  // Whether to stop waiting.
  bool gives_up() const {
    return interrupt_signal() != 0 || (source_ != VideoSource::kFile && Clock::now() - alive_ > kSilence);
  }

  std::string reason(int code) const {
    if (code == AVERROR_EXIT || code == AVERROR(ETIMEDOUT))
      return fmt::format("nothing arrived for {} seconds", kSilence.count());
    return ffmpeg_error(code);
  }

  void check(int code) const {
    if (code >= 0) return;
    if (code == AVERROR(ENOMEM)) throw std::bad_alloc();
    check_interrupt();
    if (source_ != VideoSource::kFile) fail_input("{}: cannot be opened: {}", name_, reason(code));
    if (code == AVERROR_INVALIDDATA || code == AVERROR(EINVAL))  // no container, or none of the accepted ones
      fail_input(
          "{}: is not a readable video, or its end is missing; expected for example MP4, MKV, WebM or AVI",
          name_);
    fail_input("{}: cannot be read: {}", name_, ffmpeg_error(code));
  }

  std::string name_;
  int64_t every_;
  VideoSource source_;
  AVFormatContext* format_ = nullptr;
  AVStream* stream_ = nullptr;
  FfmpegPointer<AVCodecContext> codec_;
  FfmpegPointer<AVPacket> packet_;
  FfmpegPointer<AVFrame> frame_, rgb_;
  PixelConversion conversion_;
  VideoInfo info_{};
  ImageSize stored_;
  int orientation_ = 1;
  int64_t begin_ = AV_NOPTS_VALUE;
  FrameTimes times_;
  double expected_end_ = 0;
  bool draining_ = false, ended_ = false;
  int64_t decoded_ = 0, undecodable_ = 0, damaged_ = 0, resized_ = 0;
  std::string end_problem_;
  Clock::time_point alive_;
};

VideoReader::VideoReader(const std::string& name, int64_t every, int threads)
    : decoder_(std::make_unique<Decoder>(name, every, threads)) {}
VideoReader::~VideoReader() = default;
const VideoInfo& VideoReader::info() const { return decoder_->info(); }
std::optional<VideoFrame> VideoReader::next() { return decoder_->next(); }
std::string VideoReader::losses() const { return decoder_->losses(); }
double VideoReader::end_seconds() const { return decoder_->end_seconds(); }

}  // namespace saccade
