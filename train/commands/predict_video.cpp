#include "train/commands/predict_video.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "core/files/text.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/parallel.h"
#include "core/tensor/error.h"
#include "train/inference/bounded_queue.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"
#include "train/video/video.h"

namespace saccade {
namespace {

struct DrawnFrame {
  VideoFrame frame;
  Drawing drawing;
};

// Decodes on a thread of its own, some frames in advance.
class FrameSource {
 public:
  FrameSource(const PredictInput& input, const PredictArguments& arguments, int threads)
      : reader_(input.path, arguments.video.every, threads),
        is_live_(video_source(input.path) != VideoSource::kFile),
        frames_(static_cast<size_t>(2 * arguments.batch_size + 2)),
        thread_([this] { decode(); }) {}
  ~FrameSource() { frames_.close(); }

  std::optional<VideoFrame> next() { return frames_.pop(); }
  // As known before decoding; after the first frame also with the frames' size.
  const VideoInfo& info() const { return reader_.info(); }
  // Only after end().
  double end_seconds() const { return reader_.end_seconds(); }
  // Ends the reading, when all is read or nothing more is wanted; returns what went wrong, or "".
  std::string end() {
    frames_.close();
    thread_.join();
    std::string losses = reader_.losses();
    if (dropped_ > 0)
      losses +=
          fmt::format("{}{} while others were being processed and {} left out", losses.empty() ? "" : ", ",
                      count_of(static_cast<int64_t>(dropped_), "frame arrived", "frames arrived"),
                      dropped_ == 1 ? "was" : "were");
    return losses;
  }

 private:
  void decode() {
    try {
      while (std::optional<VideoFrame> frame = reader_.next()) {
        if (is_live_) {  // a slow reader gets the current frame, not one from a minute ago
          const std::optional<size_t> dropped = frames_.push_newest(std::move(*frame));
          if (!dropped) return;
          dropped_ += *dropped;
        } else if (!frames_.push(std::move(*frame))) {
          return;
        }
      }
      frames_.close();
    } catch (...) {
      frames_.close(std::current_exception());
    }
  }

  VideoReader reader_;
  bool is_live_;
  size_t dropped_ = 0;
  BoundedQueue<VideoFrame> frames_;
  std::jthread thread_;  // declared last, so that it ends first
};

// Draws and encodes on a thread of its own.
class DrawnVideo {
 public:
  DrawnVideo(std::string path, VideoInfo info, int64_t batch_size, int threads)
      : path_(std::move(path)),
        info_(std::move(info)),
        threads_(threads),
        frames_(static_cast<size_t>(2 * batch_size + 2)),
        thread_([this] { write(); }) {}
  ~DrawnVideo() { frames_.close(std::make_exception_ptr(Interrupted())); }  // without end() nobody wants it

  // Rethrows the failure of the writer.
  void add(VideoFrame frame, Drawing drawing) {
    if (!frames_.push({std::move(frame), std::move(drawing)})) end(0);
  }
  // Waits until everything is written, with the last frame shown until `seconds`, and rethrows the writer's
  // failure. Returns the codec.
  std::string end(double seconds) {
    end_seconds_ = seconds;
    frames_.close();
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    return codec_;
  }

 private:
  void write() {
    try {
      VideoWriter writer(path_, info_, threads_);
      while (std::optional<DrawnFrame> drawn = frames_.pop()) {
        drawn->drawing(drawn->frame.image);
        writer.write(drawn->frame.image, drawn->frame.seconds);
      }
      writer.finish(end_seconds_);
      codec_ = writer.codec();
    } catch (...) {
      failure_ = std::current_exception();
      frames_.close();
    }
  }

  std::string path_;
  VideoInfo info_;
  int threads_;
  double end_seconds_ = 0;
  std::string codec_;
  std::exception_ptr failure_;
  BoundedQueue<DrawnFrame> frames_;
  std::jthread thread_;
};

// The number of frames to process, if it is known in advance; else 0.
int64_t expected_frames(const VideoInfo& info, const VideoArguments& video) {
  const int64_t frames = (info.frames + video.every - 1) / video.every;
  return video.max_frames > 0 && frames > 0 ? std::min(frames, video.max_frames) : frames;
}

// Processes one video, whose files are in place on return. Returns false if a signal came before its first
// frame. Throws InputError if nothing of it can be read.
bool predict_video(const PredictInput& input, const PredictArguments& arguments, Predictor& predictor,
                   Workspace& workspace, PictureNames& names, OutputFile& list) {
  const int threads = std::max(1, thread_count() / 2);  // for decoding and encoding, beside the model's
  FrameSource source(input, arguments, threads);
  std::optional<DrawnVideo> drawn;
  std::optional<OutputFile> tracks;
  const std::string tracks_name =
      arguments.to == kMot ? names.name(arguments.to + ("/" + video_stem(input.path)), ".txt") : "";
  if (!tracks_name.empty()) tracks.emplace(workspace.file(tracks_name));
  ProgressCounter progress("predict", expected_frames(source.info(), arguments.video), "frames");
  predictor.begin_video();
  int64_t looked_at = 0;
  bool is_whole = false;  // all frames have been processed
  double last = 0;        // in seconds
  const int64_t most = arguments.video.max_frames;
  for (bool more = true; more && interrupt_signal() == 0;) {
    std::vector<VideoFrame> frames;
    std::vector<LoadedInput> batch;
    while (std::ssize(frames) < arguments.batch_size && more) {
      std::optional<VideoFrame> frame = source.next();
      is_whole = !frame;
      if (frame) frames.push_back(std::move(*frame));
      more = frame && !(most > 0 && looked_at + std::ssize(frames) == most);
    }
    if (frames.empty()) break;
    last = frames.back().seconds;
    for (VideoFrame& frame : frames)
      batch.push_back({&input, std::move(frame.image), FrameTime{frame.number, frame.seconds}});
    std::vector<Drawing> drawings = predictor.predict_frames(batch);
    const std::string elements = predictor.take_list(), lines = predictor.take_tracks();
    list.write(elements.data(), elements.size());
    if (tracks) tracks->write(lines.data(), lines.size());
    looked_at += std::ssize(frames);
    progress.add(std::ssize(frames));
    if (input.picture.empty()) continue;
    if (!drawn) {
      VideoInfo info = source.info();
      info.frames_per_second /= static_cast<double>(arguments.video.every);
      drawn.emplace(workspace.file(input.picture), std::move(info), arguments.batch_size, threads);
    }
    for (size_t n = 0; n < frames.size(); ++n) {
      frames[n].image = std::move(batch[n].image);
      drawn->add(std::move(frames[n]), std::move(drawings[n]));
    }
  }
  const std::string losses = source.end();
  // The frames that --every skips belong to the one before them.
  const double rate = source.info().frames_per_second;
  const double next = last + static_cast<double>(arguments.video.every) / (rate > 0 ? rate : 25);
  const double end = is_whole ? source.end_seconds() : std::min(source.end_seconds(), next);
  const std::string codec = drawn ? drawn->end(end) : "";
  if (looked_at == 0) {  // a signal came first
    progress.clear();
    return false;
  }
  if (drawn) workspace.publish(input.picture);
  if (tracks) {
    tracks->commit();
    workspace.publish(tracks_name);
  }
  progress.finish();
  std::string line =
      fmt::format("{}: {} of {} x {} pixels", input.name, count_of(looked_at, "frame", "frames"),
                  source.info().size.width, source.info().size.height);
  if (drawn) line += fmt::format(", drawn in {} ({})", input.picture, codec);
  if (tracks) line += fmt::format(", tracks in {}", tracks_name);
  if (const std::string more = predictor.end_video(); !more.empty()) line += ", " + more;
  print_line(line);
  if (!losses.empty()) print_line("note: {}: {}", input.name, losses);
  return true;
}

}  // namespace

void check_video_flags(const PredictArguments& arguments, const Predictor& predictor, PredictInputs& inputs) {
  const auto is_video = [](const PredictInput& input) { return input.is_video; };
  const auto video = std::ranges::find_if(inputs.images, is_video),
             picture = std::ranges::find_if_not(inputs.images, is_video);
  const bool wants_mot = arguments.to == kMot, has_pictures = picture != inputs.images.end();
  if (video == inputs.images.end()) {
    for (const auto& [flag, given] :
         {std::pair{"--every", arguments.video.every > 1},
          std::pair{"--max-frames", arguments.video.max_frames > 0},
          std::pair{"--track", arguments.video.track}, std::pair{"--to mot", wants_mot}})
      if (given) fail_input("{}: none of the inputs is a video", flag);
    return;
  }
  if (!predictor.takes_videos())
    fail_input("{}: {} works only on pictures", video->name, arguments.checkpoint);
  if (arguments.crop) fail_input("--crop: {} is a video, expected pictures", video->name);
  if (arguments.wants_labels())
    fail_input("--to {}: {} is a video, expected pictures, or --to mot", arguments.to, video->name);
  if (wants_mot && !arguments.video.track)
    fail_input("--to mot: its lines need object numbers, expected --track as well");
  if (wants_mot && has_pictures)
    fail_input("--to mot: {} is not a video, expected only videos", picture->name);
  if (!has_pictures && arguments.format != "png")
    inputs.notes.emplace_back("note: --picture-format: changes nothing, all inputs are videos");
  const TrackerOptions& tracking = arguments.video.tracking;
  if (tracking.begin && *tracking.begin < tracking.high)
    inputs.notes.push_back(
        fmt::format("note: --track-new {:g}: scores below --track-threshold {:g} start no tracks",
                    *tracking.begin, tracking.high));
}

size_t predict_videos(const std::vector<PredictInput>& videos, const PredictArguments& arguments,
                      Predictor& predictor, Workspace& workspace, PictureNames& names, OutputFile& list) {
  size_t done = 0;
  for (const PredictInput& video : videos) {
    if (interrupt_signal() != 0) break;
    try {
      done += predict_video(video, arguments, predictor, workspace, names, list);
    } catch (const InputError& error) {
      print_error(error.what());
    } catch (const Interrupted&) {  // while the video was opened
      break;
    }
  }
  return done;
}

}  // namespace saccade
