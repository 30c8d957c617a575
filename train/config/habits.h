// The words that users of other programs type, and what says the same here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// "here --image-size N says it", for a flag "--imgsz" or a word "imgsz=640" of the command `command`
// ("train"), or a field of --set without the path to it; "" where nothing is known.
std::string ours_of_flag(std::string_view word, std::string_view command);
// "eval" for "val"; "" where nothing is known.
std::string ours_of_command(std::string_view word);
// For "yolov8n", a model that is not here: which of the recipes have about its place;
// "" where nothing is known.
std::string ours_of_model(std::string_view name);

struct Habit {
  std::string_view words;     // of others, separated by blanks, without dashes in front
  std::string_view commands;  // of ours, likewise; "": of all
  std::string_view ours;
};
const std::vector<Habit>& habits();

}  // namespace saccade
