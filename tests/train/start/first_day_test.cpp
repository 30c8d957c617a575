// The commands of docs/first_day.md, in its order, and those of other pages. The first training of a page
// stops after one step, each later one after one more.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/train/program.h"

namespace saccade {
namespace {

// The commands in shell blocks and those of the program that are indented, up to the heading `end`.
std::string commands_of(const std::string& page, const std::string& end = "") {
  std::istringstream lines(read_bytes(SACCADE_SOURCE_DIR "/" + page));
  std::string commands;
  bool inside = false, continues = false;
  for (std::string line; std::getline(lines, line) && (end.empty() || line != end);) {
    if (line.starts_with("```")) {
      inside = line == "```sh";
    } else if (inside || continues || line.starts_with("    saccade ")) {
      continues = line.ends_with("\\");
      if (!line.starts_with("scripts/")) commands += line + "\n";
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

// What the pages' names stand for: a data set as several splits, one with classes that the pages name, runs,
// images. Published weights are those of a run, and recipes the smallest one.
constexpr const char* kPages = R"x(
ln -s "$source/configs" configs
saccade data shapes --output drawn --images 12 --seed 1 --size 64
saccade data convert drawn my --split 0.5,0.5
mkdir my_images
sed 's/"circle"/"car"/; s/"square"/"truck"/; s/"triangle"/"lorry"/; s/"ring"/"ignore"/' drawn/annotations.json \
  > my_images/annotations.json
for folder in my/images my_images/images photos train images; do cp -r drawn/images $folder; done
cp drawn/images/000001.png photo.jpg
cp my_images/annotations.json train.json
cp my_images/annotations.json planted.json
for folder in a b c; do cp -r my_images $folder; done
saccade train --data my_images --model quickstart --output runs/mine --max-steps 1
for run in a b c bccd; do cp -r runs/mine runs/$run; done
cp runs/mine/checkpoints/best.safetensors best.safetensors
steps=1
saccade() {
  local arguments=() command=$1 word
  case "$*" in
    "data show"*) rm -rf seen ;;
    *--label-errors*) rm -rf relabel ;;
    "train --config"*) rm -rf runs/mine ;;
  esac
  for word in "$@"; do
    case $word in
      rt_detr_r18) word=quickstart ;;
      coco) [ $command != train ] || word=best.safetensors ;;
      /new/place/of/my_images) word=my_images ;;
      configs/bccd.textproto) [ $command = train ] || { arguments+=("$word" --data) && word=my_images; } ;;
    esac
    arguments+=("$word")
  done
  [ $command != train ] || arguments+=(--max-steps $((steps += 1)))
  echo "saccade ${arguments[*]}"
  command saccade "${arguments[@]}"
}
)x";

TEST(FirstDay, CommandsOfOtherPagesWork) {
  std::string commands;
  using Page = std::tuple<const char*, const char*, int>;
  for (const auto& [page, end, fewest] :
       {Page{"README.md", "", 3}, Page{"docs/reports.md", "", 8}, Page{"docs/labels.md", "", 11},
        Page{"docs/training.md", "## A classifier", 13}}) {
    const std::string found = commands_of(page, end);
    EXPECT_GE(std::count(found.begin(), found.end(), '\n'), fewest) << page;
    commands += found;
  }
  fs::create_directory(scratch() / "pages");
  write_bytes(scratch() / "pages/pages.sh", "set -eu\nsource='" SACCADE_SOURCE_DIR
                                            "'\nPATH='" SACCADE_BINARY_DIR "':$PATH\n" +
                                                std::string(kPages) + commands);
  const Result r = run_script("cd pages && bash pages.sh");
  EXPECT_EQ(r.status, 0) << r.err << r.out;
}

}  // namespace
}  // namespace saccade
