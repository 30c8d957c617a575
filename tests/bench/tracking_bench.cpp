// Numbers the detections of a file by object, with ByteTrack as in `saccade predict --track`.
// Usage: tracking_bench DETECTIONS > RESULTS     lines "frame,-1,x,y,w,h,score" by frame; the number replaces
// the -1 (scripts/bench/tracking.py runs it against supervision's)
#include <fmt/format.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "train/video/byte_tracker.h"

namespace saccade {
namespace {

int run(const std::string& path) {
  ByteTracker tracker({});
  std::vector<Instance> found;
  int frame = 1;
  auto end_frame = [&] {
    const std::vector<int64_t> ids = tracker.update(found);
    for (size_t i = 0; i < ids.size(); ++i)
      fmt::print("{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.4f},-1,-1,-1\n", frame, ids[i], found[i].box.x1,
                 found[i].box.y1, found[i].box.width(), found[i].box.height(), found[i].score);
    found.clear();
    ++frame;
  };
  std::istringstream lines(read_text(path, kTextFile));
  for (std::string line; std::getline(lines, line);) {
    int at = 0;
    double x = 0, y = 0, w = 0, h = 0, score = 0;
    if (std::sscanf(line.c_str(), "%d,-1,%lf,%lf,%lf,%lf,%lf", &at, &x, &y, &w, &h, &score) != 6 ||
        at < frame)
      fail_input("{}: \"{}\", expected frame,-1,x,y,w,h,score, by frame", path, line);
    while (frame < at) end_frame();
    found.push_back({.box = box_of_corner({x, y, w, h}), .score = score});
  }
  end_frame();
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tracking_bench DETECTIONS\n");
    return 2;
  }
  try {
    return saccade::run(argv[1]);
  } catch (const saccade::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
