// Runs the commands of docs/first_day.md, in its order, where the first training stops after one step and
// each later one after one more, and the commands of other pages.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/train/program.h"
#include "tests/train/video/videos.h"

namespace saccade {
namespace {

// Beginnings of commands that install or compile something, or start a container.
constexpr std::array kNotRun = {"scripts/", "cmake ", "python3 ", "venv/", "docker "};

// Returns the commands in shell blocks, the program's commands that are indented, and those within sentences.
std::string commands_of(const std::string& page) {
  static const std::regex within_a_sentence("`(saccade [^` ]+ [^`]+)`");
  std::istringstream lines(read_bytes(SACCADE_SOURCE_DIR "/" + page));
  std::string commands;
  bool inside = false, continues = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = line == "```sh";
    } else if (inside || continues || line.starts_with("    saccade ") ||
               line.starts_with("    build/saccade ")) {
      continues = line.ends_with("\\");
      if (line.starts_with("    build/")) line.erase(0, 10);
      if (std::none_of(kNotRun.begin(), kNotRun.end(), [&](const char* s) { return line.starts_with(s); }))
        commands += line + "\n";
    } else {
      for (std::sregex_iterator found(line.begin(), line.end(), within_a_sentence), end; found != end;
           ++found)
        commands += found->str(1) + "\n";
    }
  }
  return commands;
}

TEST(FirstDay, EveryCommandOfThePageWorks) {
  const std::string commands = commands_of("docs/first_day.md");
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

// Runs the commands of pages, each of which has at least this many; pages.sh says what they run on.
void expect_commands_work(const std::string& folder, const std::vector<std::pair<const char*, int>>& pages) {
  std::string script = "source='" SACCADE_SOURCE_DIR "'\nPATH='" SACCADE_BINARY_DIR "':$PATH\n" +
                       read_bytes(SACCADE_SOURCE_DIR "/tests/train/start/pages.sh");
  for (const auto& [page, fewest] : pages) {
    const std::string found = commands_of(page);
    EXPECT_GE(std::count(found.begin(), found.end(), '\n'), fewest) << page;
    script += std::string("page ") + page + "\n" + found;
  }
  fs::create_directories(scratch() / folder);
  write_bytes(scratch() / folder / "pages.sh", script);
  const Result r = run_script("cd " + folder + " && bash pages.sh");
  EXPECT_EQ(r.status, 0) << r.err << r.out;
  fs::remove_all(scratch() / folder);
}

// Not run here: extending.md and new_attention_layer.md, whose examples are built and tested by themselves;
// scaling.md, whose commands launchers start, as the tests of ranks do; python.md, library.md, building.md
// and gpu.md, whose commands install or compile something or need a GPU.
TEST(FirstDay, CommandsOfPagesOnDataAndTrainingWork) {
  expect_commands_work("on_data", {{"README.md", 4},
                                   {"docs/reports.md", 8},
                                   {"docs/labels.md", 11},
                                   {"docs/training.md", 18},
                                   {"docs/formats.md", 1},
                                   {"docs/troubleshooting.md", 3},
                                   {"docs/coming_from.md", 8},
                                   {"docs/files.md", 1}});
}

TEST(FirstDay, CommandsOfPagesOnModelsWork) {
  fs::create_directory(scratch() / "on_models");
  if (const std::string problem = video_problem(); problem.empty())
    test::write_moving_square((scratch() / "on_models/street.mp4").string(), 48, 64, 6);
  else
    std::printf("docs/video.md is tested without a video: %s\n", problem.c_str());
  expect_commands_work("on_models", {{"docs/official_checkpoints.md", 20},
                                     {"docs/onnx.md", 2},
                                     {"docs/segmentation.md", 8},
                                     {"docs/serve.md", 5},
                                     {"docs/video.md", 5},
                                     {"docs/dmha.md", 1},
                                     {"docs/complexity.md", 2}});
}

TEST(FirstDay, CommandsOfResultsWork) { expect_commands_work("of_results", {{"docs/results.md", 10}}); }

}  // namespace
}  // namespace saccade
