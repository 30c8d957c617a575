// Videos made by tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "train/video/video.h"

namespace saccade::test {

// A bright square of a quarter of the height that moves to the right over a dark background, whose blue
// increases with the frame number.
inline Image moving_square(int64_t height, int64_t width, int64_t frame) {
  Image image(height, width);
  const int64_t side = height / 4, left = (2 * frame) % (width - side);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const bool inside = y >= side && y < 2 * side && x >= left && x < left + side;
      uint8_t* pixel = image.row(y) + x * 3;
      pixel[0] = inside ? 230 : 20;
      pixel[1] = inside ? 220 : 20;
      pixel[2] = static_cast<uint8_t>(inside ? 60 : 20 + frame * 4 % 200);
    }
  return image;
}

// Writes `frames` such images, 25 per second.
inline void write_moving_square(const std::string& path, int64_t height, int64_t width, int64_t frames) {
  VideoInfo info{.size = {height, width}, .frames_per_second = 25};
  VideoWriter writer(path, info, 1);
  for (int64_t i = 0; i < frames; ++i)
    writer.write(moving_square(height, width, i), static_cast<double>(i) / 25);
  writer.finish(static_cast<double>(frames) / 25);
}

// Videos cannot be tested without FFmpeg; prints the reason.
#define SACCADE_NEEDS_FFMPEG()                                         \
  if (const std::string problem = video_problem(); !problem.empty()) { \
    std::printf("no video is tested: %s\n", problem.c_str());          \
    GTEST_SKIP() << problem;                                           \
  }                                                                    \
  static_assert(true)

}  // namespace saccade::test
