// The commands with their flags and examples, as the command line offers them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "train/commands/commands.h"

namespace saccade {

// What the parsed command line asks for; set by the callback of the chosen command.
struct Action {
  std::function<int()> run;
  // Defines the options of all commands at once, for completions and manuals; else only the parsed one's.
  bool defines_all = false;
};

// Adds all commands to the program; `action` must outlive the parsing.
void add_commands(CLI::App& app, Action& action);
void add_data_commands(CLI::App& app, Action& action);  // the commands of `saccade data`
void add_weights_commands(CLI::App& app, Action& action);
// Define the options of the commands that are in a file of their own.
void define_predict(CLI::App* command, PredictArguments* arguments);
void define_serve(CLI::App* command, ServeArguments* arguments);

}  // namespace saccade
