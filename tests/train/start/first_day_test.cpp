// Every command of docs/first_day.md, in its order. The first training stops after one step, each later one
// after one more.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/train/program.h"

namespace saccade {
namespace {

TEST(FirstDay, EveryCommandOfThePageWorks) {
  std::istringstream page(read_bytes(SACCADE_SOURCE_DIR "/docs/first_day.md"));
  std::string commands;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```"))
      inside = line == "```sh";
    else if (inside)
      commands += line + "\n";
  }
  ASSERT_GT(std::count(commands.begin(), commands.end(), '\n'), 10);
  fs::create_directory(scratch() / "first_day");
  write_bytes(scratch() / "first_day/page.sh",
              R"(set -eu
PATH=")" SACCADE_BINARY_DIR R"(:$PATH"
steps=0
saccade() {
  if [ "$1" = train ]; then command saccade "$@" --max-steps $((steps += 1)); else command saccade "$@"; fi
}
)" + commands);
  const Result r = run_script("cd first_day && bash page.sh");
  EXPECT_EQ(r.status, 0) << r.err << r.out;
  EXPECT_EQ(r.err, "");
  for (const char* made :
       {"runs/first/checkpoints/last.safetensors", "runs/second/config.textproto", "pictures/detections.json",
        "my_coco/train.json", "my.html", "seen/step000001_00.png", "runs/first/report.html"})
    EXPECT_TRUE(fs::exists(scratch() / "first_day" / made)) << made;
  EXPECT_NE(r.out.find("data.overfit: training and evaluation on the same 4 images"), std::string::npos);
}

}  // namespace
}  // namespace saccade
