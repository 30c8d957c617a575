// Tests videos that are written and read again, and files that are none.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/tensor/error.h"
#include "tests/test_folder.h"
#include "tests/train/video/videos.h"
#include "train/video/frame_times.h"

namespace saccade {
namespace {

using test::moving_square;
using test::write_moving_square;

std::vector<VideoFrame> frames_of(VideoReader& reader) {
  std::vector<VideoFrame> frames;
  while (std::optional<VideoFrame> frame = reader.next()) frames.push_back(std::move(*frame));
  return frames;
}

// Returns the mean difference of the values of two pictures; the second may have one more row or column.
double difference(const Image& a, const Image& b) {
  double sum = 0;
  for (int64_t y = 0; y < a.height; ++y)
    for (int64_t i = 0; i < a.width * 3; ++i) sum += std::abs(int{a.row(y)[i]} - int{b.row(y)[i]});
  return sum / static_cast<double>(a.height * a.width * 3);
}

std::string problem_of(const std::string& path) {
  try {
    VideoReader reader(path, 1, 1);
    while (reader.next()) continue;
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(VideoFiles, AreReadAsTheyWereWritten) {
  SACCADE_NEEDS_FFMPEG();
  TestFolder folder;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{96, 128}, {97, 131}, {64, 33}}) {
    const std::string path = folder / "square.mp4";
    write_moving_square(path, height, width, 30);
    VideoReader reader(path, 1, 2);
    EXPECT_EQ(reader.info().frames, 30);
    EXPECT_NEAR(reader.info().frames_per_second, 25, 0.01);
    const std::vector<VideoFrame> frames = frames_of(reader);
    ASSERT_EQ(frames.size(), 30u);
    EXPECT_EQ(reader.losses(), "");
    for (size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(frames[i].number, static_cast<int64_t>(i));
      EXPECT_NEAR(frames[i].seconds, static_cast<double>(i) / 25, 1e-4);
      // H.264 needs even sides.
      EXPECT_EQ(frames[i].image.height, height + height % 2);
      EXPECT_EQ(frames[i].image.width, width + width % 2);
      EXPECT_LT(difference(moving_square(height, width, static_cast<int64_t>(i)), frames[i].image), 6) << i;
    }
    // The colours are restored, not only the brightness.
    EXPECT_LT(frames[5].image.row(height / 4 + height / 8)[3 * (10 + height / 8) + 2], 110);
    EXPECT_GT(frames[5].image.row(height / 4 + height / 8)[3 * (10 + height / 8)], 190);
  }
}

TEST(VideoFiles, TimesMayBeUneven) {
  SACCADE_NEEDS_FFMPEG();
  TestFolder folder;
  const std::string path = folder / "uneven.mp4";
  const std::vector<double> times{0,   0.04, 0.05, 0.5,
                                  0.5, 0.7,  2};  // one time comes twice: the second frame follows the first
  VideoWriter writer(path, {.size = {48, 64}, .frames_per_second = 25}, 1);
  for (size_t i = 0; i < times.size(); ++i)
    writer.write(moving_square(48, 64, static_cast<int64_t>(i)), times[i]);
  writer.finish(2.5);
  VideoReader reader(path, 1, 1);
  const std::vector<VideoFrame> frames = frames_of(reader);
  ASSERT_EQ(frames.size(), times.size());
  for (size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(frames[i].seconds, times[i], 1e-4) << i;
  EXPECT_NEAR(reader.end_seconds(), 2.5, 1e-4);
  EXPECT_EQ(reader.losses(), "");
}

// In joined recordings each part follows the last frame, with its own distances.
TEST(FrameTimes, NeverGoBack) {
  FrameTimes times;
  auto expect = [&times](std::optional<double> stamp, double time) {
    EXPECT_NEAR(times.next(stamp, 0.25), time, 1e-9) << stamp.value_or(-1);
  };
  expect(-0.5, 0);  // before the stream's beginning
  expect(0, 0);
  expect(0.25, 0.25);
  expect(0.25, 0.25);  // equal stamps do not go back
  expect({}, 0.5);
  expect(0.375, 0.5);  // earlier than was guessed, but later than the last stamp
  expect(1, 1);
  EXPECT_EQ(times.steps_back(), 0);
  expect(0, 1.25);
  expect(0.125, 1.375);
  expect(2, 3.25);
  expect({}, 3.5);
  expect(-7, 3.75);
  expect(-6, 4.75);
  EXPECT_EQ(times.steps_back(), 2);
  EXPECT_EQ(times.first_step_back(), 7);
  EXPECT_NEAR(times.end(), 5, 1e-9);
}

TEST(VideoFiles, EveryNthFrameIsTheSameFrame) {
  SACCADE_NEEDS_FFMPEG();
  TestFolder folder;
  write_moving_square(folder / "a.mp4", 48, 64, 20);
  VideoReader all(folder / "a.mp4", 1, 1), some(folder / "a.mp4", 7, 1);
  const std::vector<VideoFrame> frames = frames_of(all), sevenths = frames_of(some);
  ASSERT_EQ(sevenths.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sevenths[i].number, static_cast<int64_t>(7 * i));
    EXPECT_EQ(sevenths[i].seconds, frames[7 * i].seconds);
    EXPECT_EQ(sevenths[i].image, frames[7 * i].image);
  }
}

TEST(VideoFiles, WhatIsNoVideoIsRefusedInALine) {
  SACCADE_NEEDS_FFMPEG();
  TestFolder folder;
  write_bytes(folder / "empty.mp4", "");
  EXPECT_NE(problem_of(folder / "empty.mp4").find("empty.mp4: is empty"), std::string::npos);
  write_bytes(folder / "text.mp4", "This is a shopping list.\nMilk\nBread\n");
  EXPECT_NE(problem_of(folder / "text.mp4").find("text.mp4: is not a readable video"), std::string::npos);
  // A list of other files is not followed.
  write_bytes(folder / "list.mp4", "ffconcat version 1.0\nfile 'a.mp4'\n");
  EXPECT_NE(problem_of(folder / "list.mp4").find("list.mp4: is not a readable video"), std::string::npos);
  write_bytes(folder / "hls.ts",
              "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n/etc/passwd\n#EXT-X-ENDLIST\n");
  EXPECT_NE(problem_of(folder / "hls.ts").find("hls.ts: is not a readable video"), std::string::npos);
  EXPECT_NE(problem_of(folder / "none.mp4").find("none.mp4"), std::string::npos);
  EXPECT_NE(problem_of(folder.path()).find(folder.path()), std::string::npos);
  EXPECT_NE(problem_of("camera:x").find("no such camera"), std::string::npos);
  EXPECT_NE(problem_of("camera:999").find("camera:999: "), std::string::npos);
}

// Whatever is missing or changed, the result is a line, or frames and what was lost.
TEST(VideoFiles, DamageIsSaid) {
  SACCADE_NEEDS_FFMPEG();
  TestFolder folder;
  write_moving_square(folder / "whole.mp4", 96, 128, 40);
  const std::string bytes = read_bytes(folder / "whole.mp4");
  for (size_t part = 1; part < 8; ++part) {
    write_bytes(folder / "cut.mp4",
                bytes.substr(0, bytes.size() * part / 8));  // without the table at its end
    EXPECT_NE(problem_of(folder / "cut.mp4").find("cut.mp4: "), std::string::npos) << part;
  }
  size_t said = 0;
  for (size_t at = 60; at + 200 < bytes.size(); at += bytes.size() / 12) {
    std::string changed = bytes;
    for (size_t i = at; i < at + 100; ++i) changed[i] = static_cast<char>(changed[i] ^ 0x5A);
    write_bytes(folder / "changed.mp4", changed);
    try {
      VideoReader reader(folder / "changed.mp4", 1, 1);
      const size_t frames = frames_of(reader).size();
      EXPECT_LE(frames, 41u);
      said += frames == 40 || !reader.losses().empty();  // all are there, or what is not is said
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("changed.mp4: "), std::string::npos);
      ++said;
    }
  }
  EXPECT_GE(said, 12u);
}

TEST(VideoFiles, AreKnownByNameAndByContent) {
  TestFolder folder;
  EXPECT_EQ(video_source("a/b.MKV"), VideoSource::kFile);
  EXPECT_EQ(video_source("rtsp://user:word@host:554/door?x=1"), VideoSource::kStream);
  EXPECT_EQ(video_source("camera:0"), VideoSource::kCamera);
  EXPECT_EQ(video_source("https://host/a.jpg"), std::nullopt);
  EXPECT_EQ(video_source("https://host/a.mp4"), std::nullopt);
  EXPECT_EQ(video_source("a.jpg"), std::nullopt);
  write_bytes(folder / "clip", std::string("\0\0\0\x20"
                                           "ftypisom",
                                           12) +
                                   std::string(20, '\0'));
  EXPECT_EQ(video_source(folder / "clip"), VideoSource::kFile);
  write_bytes(folder / "photo", std::string("\0\0\0\x20"
                                            "ftypavif",
                                            12) +
                                    std::string(20, '\0'));
  EXPECT_EQ(video_source(folder / "photo"), std::nullopt);
  std::filesystem::create_directories(folder / "folder.mp4");
  EXPECT_EQ(video_source(folder / "folder.mp4"), std::nullopt);
  EXPECT_EQ(shown_video_name("rtsp://user:w@rd@host:554/door?x=1"), "rtsp://host:554/door?x=1");
  EXPECT_EQ(video_stem("rtsp://user:word@host:554/street/door?x=1"), "door");
  EXPECT_EQ(video_stem("udp://127.0.0.1:9000"), "127.0.0.1_9000");
  EXPECT_EQ(video_stem("camera:../x"), "camera_.._x");
  EXPECT_EQ(video_stem("a/clip.mp4"), "clip");
}

}  // namespace
}  // namespace saccade
