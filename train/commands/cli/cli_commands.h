// The commands with their flags and examples, as the command line knows them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "train/commands/commands.h"

namespace saccade {

// What the parsed command line asks for; set by the callback of the chosen command.
struct Action {
  std::function<int()> run;
  // Whether all commands get their options at once, for completions and manuals; else the one that is parsed.
  bool defines_all = false;
};

// Adds all of them to the program; `action` must outlive the parsing.
void add_commands(CLI::App& app, Action& action);
void add_data_commands(CLI::App& app, Action& action);  // of these, those of `saccade data`
void add_weights_commands(CLI::App& app, Action& action);
// The options of commands that have a file of their own.
void define_predict(CLI::App* command, PredictArguments* arguments);
void define_serve(CLI::App* command, ServeArguments* arguments);

}  // namespace saccade
