// What a shell completes and what the manual says, made from the definitions of the commands and from the
// configuration's schema.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace saccade {

// The script of `shell`, "bash", "zsh" or "fish": it asks the program itself (complete_words), so that it
// never differs from it. Throws InputError for another shell.
std::string completion_script(const std::string& shell);

// What may stand at the end of these words of a command line, the first of them the program: commands, flags,
// values of flags, the fields of a configuration and their values. "FILES" or "FOLDERS" alone leaves it to
// the shell.
std::vector<std::string> complete_words(const CLI::App& app, const std::vector<std::string>& words);

// "model.backbone.type=resnet" for "model.backbone.type=res": what --set may say, one step further.
std::vector<std::string> complete_set(const std::string& word);

// Pages of the manual in the format of man(7): a file name and its text for the program and each command.
struct ManualPage {
  std::string name, text;
};
std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& version);

}  // namespace saccade
