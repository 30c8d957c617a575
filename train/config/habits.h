// Maps the vocabulary of other programs' users to ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Returns advice such as "use --image-size N instead" for a flag "--imgsz" or a word "imgsz=640" of the
// command `command` ("train"), or for a field of --set without its path; empty if the word is unknown.
std::string ours_of_flag(std::string_view word, std::string_view command);
// Returns "eval" for "val"; empty if the word is unknown.
std::string ours_of_command(std::string_view word);
// For a model that is not available here, such as "yolov8n", returns the recipes of comparable rank; empty if
// the name is unknown.
std::string ours_of_model(std::string_view name);

struct Habit {
  std::string_view words;     // words of others, separated by blanks, without leading dashes
  std::string_view commands;  // our commands, likewise; if empty, all
  std::string_view ours;      // empty: always on, so there is no flag
};
const std::vector<Habit>& habits();

}  // namespace saccade
