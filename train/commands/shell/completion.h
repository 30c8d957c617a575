// Shell completion and the manual, generated from the definitions of the commands and from the schema of the
// configuration.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace saccade {

// Returns the script for `shell`, "bash", "zsh" or "fish". It asks the program itself (complete_words), so
// that the two always agree. Throws InputError for another shell.
std::string completion_script(const std::string& shell);

// Returns what may stand at the end of these words of a command line, the first of which is the program:
// commands, flags, values of flags, fields of a configuration and their values. "FILES" or "FOLDERS" alone
// leaves it to the shell.
std::vector<std::string> complete_words(const CLI::App& app, const std::vector<std::string>& words);

// Completes a --set word by one step: "model.backbone.type=resnet" for "model.backbone.type=res".
std::vector<std::string> complete_set(const std::string& word);

// Manual pages in the format of man(7): a file name and its text for the program and each command.
struct ManualPage {
  std::string name, text;
};
std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& version);

}  // namespace saccade
