// Used in builds without FFmpeg's headers: reports that videos are not supported.
#include "core/tensor/error.h"
#include "train/video/video.h"

namespace saccade {

std::string video_support() { return "no (built without FFmpeg)"; }

std::string video_problem() {
  return "the program was built without FFmpeg, which reads videos: install its headers (scripts/setup.sh --video) and build "
         "again";
}

class VideoReader::Decoder {};
VideoReader::VideoReader(const std::string& name, int64_t, int) {
  fail_input("{}: {}", shown_video_name(name), video_problem());
}
VideoReader::~VideoReader() = default;
const VideoInfo& VideoReader::info() const { fail("[VideoReader] {}", video_problem()); }
std::optional<VideoFrame> VideoReader::next() { return std::nullopt; }
std::string VideoReader::losses() const { return ""; }
double VideoReader::end_seconds() const { return 0; }

class VideoWriter::Encoder {};
VideoWriter::VideoWriter(const std::string& path, const VideoInfo&, int) {
  fail("{}: {}", path, video_problem());
}
VideoWriter::~VideoWriter() = default;
void VideoWriter::write(const Image&, double) {}
void VideoWriter::finish(double) {}
std::string VideoWriter::codec() const { return ""; }

}  // namespace saccade
