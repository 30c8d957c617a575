// Runs commands inside a test program, and reads the results from a run folder.
#pragma once

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "train/commands/cli/cli.h"

namespace saccade {

// Runs `saccade WORDS...` in this process; returns the exit status.
inline int run_command(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"saccade"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_command_line(static_cast<int>(argv.size()), argv.data());
}

// Returns a number from each line of metrics.jsonl that has it.
inline std::vector<double> logged_numbers(const std::string& run_folder, const std::string& name) {
  std::vector<double> out;
  std::ifstream file(run_folder + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_search(line, match, std::regex("\"" + name + R"(": ?([0-9.eE+-]+))")))
      out.push_back(std::stod(match[1]));
  }
  return out;
}
inline std::vector<double> losses_of(const std::string& run_folder) {
  return logged_numbers(run_folder, "loss");
}

}  // namespace saccade
