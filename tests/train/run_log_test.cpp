// Tests metrics.jsonl and TensorBoard files. The framing's known answers are those of RFC 3720 (crc32c);
// scripts/checks/check_events.py shows that TensorBoard itself reads the files.
#include "train/logs/run_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/test_folder.h"
#include "train/logs/progress.h"

namespace saccade {
namespace {

TEST(TensorBoard, KnownCrcs) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, Framing) {
  std::string record = tfrecord("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  uint64_t length = 0;
  std::memcpy(&length, record.data(), 8);
  EXPECT_EQ(length, 3u);
  EXPECT_EQ(record.substr(12, 3), "abc");
  auto masked = [](uint32_t c) { return ((c >> 15) | (c << 17)) + 0xA282EAD8u; };
  uint32_t crc = 0;
  std::memcpy(&crc, record.data() + 8, 4);
  EXPECT_EQ(crc, masked(crc32c(record.substr(0, 8))));
  std::memcpy(&crc, record.data() + 15, 4);
  EXPECT_EQ(crc, masked(crc32c("abc")));
}

TEST(RunLog, ResumeDropsWhatComesAgain) {
  TestFolder folder;
  std::string run = folder / "run", path = run + "/metrics.jsonl";
  {
    RunLog log(run, -1);
    for (int64_t step = 1; step <= 5; ++step)
      log.record("train", step, {{"loss", 1.0 / static_cast<double>(step)}});
    log.record("eval", 3, {{"AP", 0.25}}, true);
    log.record("eval", 3, {{"AP", NAN}});
  }
  std::string text = read_bytes(path);
  EXPECT_NE(text.find("{\"type\": \"train\", \"step\": 4, \"loss\": 0.25}\n"), std::string::npos);
  EXPECT_NE(text.find("\"AP\": null"), std::string::npos);
  write_bytes(path, text + "{\"type\": \"train\", \"st");
  {
    RunLog log(run, 3);
    log.record("train", 4, {{"loss", 9}});
  }
  EXPECT_EQ(read_bytes(path),
            "{\"type\": \"train\", \"step\": 1, \"loss\": 1}\n"
            "{\"type\": \"train\", \"step\": 2, \"loss\": 0.5}\n"
            "{\"type\": \"train\", \"step\": 3, \"loss\": 0.3333333333333333}\n"
            "{\"type\": \"eval\", \"step\": 3, \"AP\": null}\n"
            "{\"type\": \"train\", \"step\": 4, \"loss\": 9, \"start_step\": 3}\n");
  RunLog again(run, -1);
  EXPECT_EQ(read_bytes(path), "");
}

// Returns the steps of all events in the folder.
std::vector<int> event_steps(const std::string& folder) {
  std::vector<int> steps;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.find("tfevents") == std::string::npos) continue;
    const std::string bytes = read_bytes(path);
    for (size_t at = 0; at < bytes.size();) {
      uint64_t length = 0;
      std::memcpy(&length, bytes.data() + at, 8);
      // A double (9 bytes), then the step: 0x10 and a number below 128.
      EXPECT_EQ(bytes.at(at + 12 + 9), 0x10);
      if (const int step = bytes.at(at + 12 + 10); step > 0) steps.push_back(step);
      at += 12 + length + 4;
      EXPECT_LE(at, bytes.size());
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

TEST(RunLog, ResumeCutsEventsAndSaysWhatWasDamaged) {
  TestFolder folder;
  const std::string run = folder / "run";
  {
    RunLog log(run, -1);
    for (int64_t step = 1; step <= 5; ++step) log.record("train", step, {{"loss", 1}});
    EXPECT_TRUE(log.notes().empty());
  }
  EXPECT_EQ(event_steps(run), (std::vector<int>{1, 2, 3, 4, 5}));
  {
    RunLog log(run, 3);
    EXPECT_TRUE(log.notes().empty());
    log.record("train", 4, {{"loss", 2}});
    log.record("eval", 4, {{"AP", 2}}, true);
  }
  EXPECT_EQ(event_steps(run), (std::vector<int>{1, 2, 3, 4, 4}));
  for (const auto& entry : std::filesystem::directory_iterator(run))
    std::ofstream(entry.path(), std::ios::app | std::ios::binary) << "{half";
  RunLog log(run, 4);
  EXPECT_TRUE(log.dropped_evaluation());
  EXPECT_EQ(event_steps(run), (std::vector<int>{1, 2, 3, 4}));
  // For metrics.jsonl and one of the two event files; in the other, the damage goes with its evaluation.
  EXPECT_EQ(log.notes().size(), 2u);
}

// A SummaryWriter's file next to a run, and files that only have such a name.
TEST(RunLog, ResumeLeavesTheEventsOfOthers) {
  TestFolder folder;
  const std::string run = folder / "run", begin = run + "/events.out.tfevents.";
  {
    RunLog log(run, -1);
    for (int64_t step = 1; step <= 5; ++step) log.record("train", step, {{"loss", 1}});
  }
  const std::string time("\x09\0\0\0\0\0\0\0\0", 9), version = std::string("\x1a\x0d") + "brain.Event:2";
  const auto step = [&](char n) { return tfrecord(time + "\x10" + n); };
  const std::string foreign = tfrecord(time + version) + step(3) + step(90) + "cut";
  write_bytes(begin + "1.theirs", foreign);
  write_bytes(begin + "notes.txt", "my notes");
  // Files as this program wrote them before it named itself: their first event has a step of 0.
  write_bytes(begin + "0.before", tfrecord(time + std::string("\x10\0", 2) + version) + step(2) + step(4));
  RunLog log(run, 3);
  ASSERT_EQ(log.notes().size(), 1u);
  EXPECT_NE(log.notes()[0].find("1.theirs and 1 more event files: not written by this program"),
            std::string::npos)
      << log.notes()[0];
  EXPECT_EQ(read_bytes(begin + "1.theirs"), foreign);
  EXPECT_EQ(read_bytes(begin + "notes.txt"), "my notes");
  for (const char* name : {"1.theirs", "notes.txt"}) std::filesystem::remove(begin + name);
  EXPECT_EQ(event_steps(run), (std::vector<int>{1, 2, 2, 3}));
}

TEST(Progress, Formats) {
  EXPECT_EQ(format_duration(42.4), "42 s");
  EXPECT_EQ(format_duration(187), "3:07 min");
  EXPECT_EQ(format_duration(7500), "2:05 h");
  EXPECT_EQ(format_bytes(812'000'000), "812 MB");
  EXPECT_EQ(format_bytes(2'400'000'000), "2.4 GB");
  EXPECT_GT(resident_bytes(), 1000000);
}

}  // namespace
}  // namespace saccade
