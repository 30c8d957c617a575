// Tests saccade predict with videos: what is drawn, listed, tracked, refused, and left when a signal comes.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/train/program.h"
#include "tests/train/video/videos.h"

namespace saccade {
namespace {

const std::string kBestTwo = "predict --threshold 0 --max 2 --checkpoint " + kCheckpoint + " --output ";
const std::string kFollowTwo =
    "predict --track --track-threshold 0 --track-new 0 --track-match 1 --max 2 --checkpoint " + kCheckpoint +
    " --output ";

std::string written_file(const std::string& name) { return read_bytes((scratch() / name).string()); }

int count_in(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

int64_t frames_in(const std::string& name) {
  VideoReader reader((scratch() / name).string(), 1, 1);
  int64_t frames = 0;
  while (reader.next()) ++frames;
  EXPECT_EQ(reader.losses(), "");
  return frames;
}

class PredictVideo : public Cli {
 protected:
  void SetUp() override {
    SACCADE_NEEDS_FFMPEG();
    const std::string square = (scratch() / "square.mp4").string();
    if (!fs::exists(square)) test::write_moving_square(square, 48, 65, 12);
  }
};

TEST_F(PredictVideo, BesidePictures) {
  for (const std::string batch : {"1", "5"}) {
    const std::string out = "beside_" + batch;
    expect_works(kBestTwo + out + " --batch-size " + batch + " " + image_ + " square.mp4");
    const std::string list = written_file(out + "/detections.json");
    EXPECT_EQ(count_in(list, "\"file_name\": \"square.mp4\", \"frame\": "), 24);
    EXPECT_EQ(count_in(list, "\"frame\": 3, \"time\": 0.12, \"category_id\": "), 2);
    EXPECT_EQ(count_in(list, "\"file_name\""), 26);
    EXPECT_EQ(count_in(list, "track_id"), 0);
    EXPECT_EQ(frames_in(out + "/square.mp4"), 12);
  }
  VideoReader drawn((scratch() / "beside_1/square.mp4").string(), 1, 1);
  const std::optional<VideoFrame> first = drawn.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->image.width, 66);
  // The output is recognised as one of ours: a second run replaces it, and a stranger's stays.
  expect_works(kBestTwo + "beside_1 square.mp4");
  EXPECT_FALSE(fs::exists(scratch() / "beside_1/square_2.mp4"));
  fs::copy_file(scratch() / image_, scratch() / "beside_1/square.mp4", fs::copy_options::overwrite_existing);
  expect_works(kBestTwo + "beside_1 square.mp4");
  EXPECT_EQ(written_file("beside_1/square.mp4"), written_file(image_));
  EXPECT_EQ(frames_in("beside_1/square_2.mp4"), 12);
}

TEST_F(PredictVideo, FramesAsAsked) {
  expect_works(kBestTwo + "fifths --every 5 square.mp4");
  const std::string list = written_file("fifths/detections.json");
  EXPECT_EQ(count_in(list, "\"file_name\""), 6);
  for (const std::string frame :
       {"\"frame\": 0, \"time\": 0,", "\"frame\": 5, \"time\": 0.2,", "\"frame\": 10, \"time\": 0.4,"})
    EXPECT_EQ(count_in(list, frame), 2) << list;
  EXPECT_EQ(frames_in("fifths/square.mp4"), 3);
  // The output lasts as long as the part of the input that was looked at: 12 frames, 25 per second.
  expect_works(kBestTwo + "one --every 99 square.mp4");
  expect_works(kBestTwo + "two --every 5 --max-frames 2 square.mp4");
  for (const auto& [video, end] :
       {std::pair{"fifths", 0.48}, std::pair{"one", 0.48}, std::pair{"two", 0.4}}) {
    VideoReader drawn((scratch() / video / "square.mp4").string(), 1, 1);
    while (drawn.next()) {
    }
    EXPECT_NEAR(drawn.end_seconds(), end, 1e-3) << video;
  }
  expect_works(kBestTwo + "four --max-frames 4 --no-pictures square.mp4");
  EXPECT_EQ(count_in(written_file("four/detections.json"), "\"file_name\""), 8);
  EXPECT_FALSE(fs::exists(scratch() / "four/square.mp4"));
}

TEST_F(PredictVideo, Tracks) {
  fs::create_directories(scratch() / "more");
  fs::copy_file(scratch() / "square.mp4", scratch() / "more/square.mp4");
  expect_works(kFollowTwo + "followed --to mot square.mp4 more/square.mp4");
  const std::string list = written_file("followed/detections.json");
  EXPECT_GT(count_in(list, "\"track_id\": 1,"), 12);  // an object that hardly moves stays one object
  EXPECT_EQ(count_in(list, "\"track_id\""), count_in(list, "\"file_name\""));
  const std::string tracks = written_file("followed/mot/square.txt");
  EXPECT_EQ(tracks, written_file("followed/mot/square_2.txt"));  // the numbers begin anew
  EXPECT_EQ(2 * count_in(tracks, "\n"), count_in(list, "\"file_name\""));
  std::istringstream lines(tracks);
  int last = 1;
  for (std::string line; std::getline(lines, line);) {
    int frame = 0, id = 0;
    double x = 0, y = 0, w = 0, h = 0, score = 0;
    ASSERT_EQ(
        std::sscanf(line.c_str(), "%d,%d,%lf,%lf,%lf,%lf,%lf,-1,-1,-1", &frame, &id, &x, &y, &w, &h, &score),
        7)
        << line;
    EXPECT_GE(frame, last);
    EXPECT_LE(frame, 12);
    EXPECT_GE(id, 1);
    last = frame;
  }
  expect_refused(kFollowTwo + "followed --to mot square.mp4", "followed/mot: already exists");
}

TEST_F(PredictVideo, WhatMakesNoSenseIsRefused) {
  for (const auto& [flags, part] :
       {std::pair<const char*, const char*>{"--crop square.mp4", "--crop: square.mp4 is a video"},
        {"--to coco square.mp4", "--to coco: square.mp4 is a video"},
        {"--to mot square.mp4", "expected --track as well"},
        {"--every 2 shapes/images", "--every: none of the inputs is a video"},
        {"--max-frames 2 shapes/images", "--max-frames: none of the inputs is a video"},
        {"--track-buffer 3 square.mp4", "--track"},
        {"--every 0 square.mp4", "expected a whole number of at least 1"}})
    expect_refused(kBestTwo + "refused " + flags, part);
  expect_refused(kFollowTwo + "refused shapes/images", "--track: none of the inputs is a video");
  expect_refused(kFollowTwo + "refused --to mot square.mp4 shapes/images", "000001.png is not a video");
  expect_refused(kFollowTwo + "refused --threshold 0.3 square.mp4",
                 "--threshold: does not apply with --track");
  EXPECT_FALSE(fs::exists(scratch() / "refused"));
}

TEST_F(PredictVideo, FlagsWithoutEffectAreNamed) {
  const std::string format = "note: --picture-format: changes nothing, all inputs are videos\n",
                    begin = "note: --track-new 0.2: scores below --track-threshold 0.5 start no tracks\n",
                    command = "predict --checkpoint " + kCheckpoint +
                              " --output no_effect --max-frames 1 --picture-format jpg square.mp4 ";
  const std::string both = run(command + "--track --track-new 0.2").out,
                    none = run(command + "--track --track-new 0.5 shapes/images").out;
  EXPECT_EQ(count_in(both, format), 1) << both;
  EXPECT_EQ(count_in(both, begin), 1) << both;
  EXPECT_EQ(count_in(none, "note: --"), 0) << none;
}

TEST_F(PredictVideo, OneThatCannotBeReadIsReported) {
  write_bytes((scratch() / "text.mp4").string(), "milk, bread, butter\n");
  write_bytes((scratch() / "empty.mp4").string(), "");
  fs::create_directories(scratch() / "folder.mp4");
  const std::string whole = written_file("square.mp4");
  write_bytes((scratch() / "half.mp4").string(), whole.substr(0, whole.size() / 2));
  for (const auto& [name, part] :
       {std::pair<std::string, std::string>{"text.mp4", "text.mp4: is not a readable video"},
        {"empty.mp4", "empty.mp4: is empty"},
        {"half.mp4", "half.mp4: "},
        {"missing.mp4", "missing.mp4: "},
        {"folder.mp4", "folder.mp4: no images in this folder"},
        {"camera:77", "camera:77: "}}) {
    expect_refused(kBestTwo + "bad_alone " + name, part);
    EXPECT_FALSE(fs::exists(scratch() / "bad_alone"));
  }
  const Result r = run(kBestTwo + "bad_beside text.mp4 square.mp4");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err.find("error: text.mp4: is not a readable video"), 0u) << r.err;
  EXPECT_EQ(frames_in("bad_beside/square.mp4"), 12);
  EXPECT_EQ(count_in(written_file("bad_beside/detections.json"), "\"file_name\": \"square.mp4\""), 24);
}

TEST_F(PredictVideo, OfClassifiersAndLabelMaps) {
  run_script(
      "mkdir -p video_classes/train/a video_classes/train/b; cp shapes/images/000001.png video_classes/train/a; cp "
      "shapes/images/000002.png video_classes/train/b");
  const std::string
      backbone =
          "backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: ",
      rest = " batch_size: 2 workers: 1 augment { height: 32 width: 32 } ";
  write_bytes((scratch() / "class.textproto").string(),
              "model { type: \"classifier\" " + backbone +
                  "[4] } }\ndata { train { images: \"video_classes/train\" } " +
                  "val { images: \"video_classes/train\" }" + rest +
                  "val_height: 32 val_width: 32 } train { max_steps: 1 }");
  const std::string maps =
      "{ format: \"label_maps\" annotations: \"shapes/label_maps\" images: \"shapes/images\" } ";
  write_bytes((scratch() / "map.textproto").string(),
              "model { type: \"semantic_fpn\" " + backbone +
                  "[1, 2, 3, 4] } semantic_fpn { channels: 16 head_channels: 16 } }\ndata { train " + maps +
                  "val " + maps + rest + "val_short_side: 64 val_long_side: 96 } train { max_steps: 1 }");
  struct Row {
    std::string name, entry;
    bool draws;
  };
  for (const auto& [name, entry, draws] :
       {Row{"class", "{\"file_name\": \"square.mp4\", \"frame\": 2, \"time\": 0.08, \"classes\": [", false},
        Row{"map",
            "{\"file_name\": \"square.mp4\", \"frame\": 2, \"time\": 0.08, \"width\": 66, \"height\": 48,",
            true}}) {
    expect_works("train --config " + name + ".textproto --output " + name);
    const std::string command = "predict --checkpoint " + name + "/checkpoints/last.safetensors --output ";
    expect_works(command + name + "_video --max-frames 3 --batch-size 2 square.mp4");
    const std::string list = written_file(name + "_video/predictions.json");
    EXPECT_EQ(count_in(list, entry), 1) << list;
    EXPECT_EQ(count_in(list, "\"file_name\""), 3);
    EXPECT_EQ(fs::exists(scratch() / (name + "_video/square.mp4")), draws);
    EXPECT_FALSE(fs::exists(scratch() / (name + "_video/label_maps")));
    expect_refused(command + "refused --track square.mp4", "expected a detector");
  }
  EXPECT_EQ(frames_in("map_video/square.mp4"), 3);
}

TEST_F(PredictVideo, ASignalLeavesAFileThatPlays) {
  test::write_moving_square((scratch() / "long.mp4").string(), 32, 32, 2000);
  const Result r = run_script("\"$S\" " + kBestTwo +
                              "stopped long.mp4 & pid=$!\n"
                              "for i in $(seq 400); do\n"
                              "  set -- stopped/.predict-*/long.mp4; [ -s \"$1\" ] && break; sleep 0.02\n"
                              "done\n"
                              "kill -TERM $pid; wait $pid");
  EXPECT_EQ(r.status, 143) << r.err;
  EXPECT_NE(r.out.find("stopped by SIGTERM: the results so far are complete"), std::string::npos) << r.out;
  const int64_t frames = frames_in("stopped/long.mp4");
  EXPECT_GT(frames, 0);
  EXPECT_LT(frames, 2000);
  const std::string list = written_file("stopped/detections.json");
  EXPECT_TRUE(list.ends_with("}\n]\n"));
  EXPECT_EQ(count_in(list, "\"file_name\""), 2 * frames);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(scratch() / "stopped"))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"detections.json", "long.mp4"}));
}

}  // namespace
}  // namespace saccade
