// The commands with their flags and examples, as the command line knows them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace saccade {

// What the parsed command line asks for; set by the callback of the chosen command.
using Action = std::function<int()>;

// Adds all of them to the program; `action` must outlive the parsing.
void add_commands(CLI::App& app, Action& action);
void add_data_commands(CLI::App& app, Action& action);  // of these, those of `saccade data`
void add_predict_command(CLI::App& app, Action& action);
void add_weights_commands(CLI::App& app, Action& action);
void add_serve_command(CLI::App& app, Action& action);

}  // namespace saccade
