#include "train/commands/cli/cli.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <span>
#include <sstream>
#include <system_error>

#include "core/files/descriptors.h"
#include "core/files/nearest.h"
#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/runtime/cpu/thread_team.h"
#include "core/tensor/error.h"
#include "train/commands/cli/cli_commands.h"
#include "train/commands/shell/completion.h"
#include "train/config/habits.h"
#include "train/logs/print.h"

namespace saccade {

namespace {

int fail_with(int status, std::string_view message) {
  print_error(message);
  return status;
}

// A file system's raw error names no location in front. Errors of paths are the user's, the others the
// machine's.
CommandFailure failure_of(const std::filesystem::filesystem_error& error) {
  const std::error_code& code = error.code();
  const bool of_machine = code == std::errc::no_space_on_device || code == std::errc::io_error ||
                          code == std::errc::not_enough_memory || code == std::errc::too_many_files_open;
  return {of_machine ? 1 : 2, fmt::format("{}: {}", error.path1().string(), code.message())};
}

// Returns the innermost command that was recognised, and its full name: "saccade data shapes".
const CLI::App* innermost(const CLI::App* app, std::string& name) {
  name = app->get_name();
  for (auto chosen = app->get_subcommands(); !chosen.empty(); chosen = app->get_subcommands()) {
    app = chosen.front();
    name += " " + app->get_name();
  }
  return app;
}

// Rewrites what the parser says of an option's values.
std::string in_our_words(const CLI::App& command, const CLI::ParseError& error) {
  std::string text = error.what();
  auto part = [&](std::string_view begin, std::string_view end) {  // the text between the two
    const size_t from = begin.empty() ? 0 : text.find(begin),
                 to = end.empty() ? text.size() : text.rfind(end);
    if (from == std::string::npos || to == std::string::npos || from + begin.size() > to)
      return std::string();
    return text.substr(from + begin.size(), to - from - begin.size());
  };
  if (dynamic_cast<const CLI::RequiresError*>(&error))
    return fmt::format("{} needs {}", part("", " requires "), part(" requires ", ""));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    const std::string type = part(" required ", " missing"), words = part(":{", "} missing");
    if (!type.empty())
      return fmt::format("{}: no value given, expected {}", text.substr(0, text.find(": ")),
                         words.empty() ? type : "one of " + words);
    if (const std::string name = part("", ": At Most 1 required"); !name.empty())
      return fmt::format("{}: given {} times, expected once", name, part(" but received ", ""));
  }
  if (const std::string name = part("Could not convert: ", " = "); !name.empty()) {
    const CLI::Option* option = command.get_option_no_throw(name);
    const bool is_flag = option != nullptr && option->get_expected_max() == 0;
    return fmt::format("{}: \"{}\" is not valid, expected {}", name, part(" = ", ""),
                       is_flag || option == nullptr ? "no value" : option->get_type_name());
  }
  return text;
}

// The parser names an option by its first name, the message by the one that was given.
std::string with_given_name(std::string message, const CLI::App& command,
                            const std::vector<std::string>& words) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    for (size_t i = 1; i < names.size(); ++i) {
      const std::string first = "--" + names[0] + ":", flag = "--" + names[i];
      const bool is_given = std::ranges::any_of(
          words, [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
      if (is_given && message.starts_with(first)) return flag + message.substr(first.size() - 1);
    }
  }
  return message;
}

// Returns "--json" if a word is "--json=": the parser would take the next word for the value.
std::string flag_without_value(std::span<const std::string> words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1)
      return word.substr(0, word.size() - 1);
  }
  return "";
}

std::string explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& words) {
  std::string name;
  const CLI::App* command = innermost(&app, name);
  std::vector<std::string> subcommands, flags;
  for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; }))
    subcommands.push_back(sub->get_name());
  for (const CLI::Option* option : command->get_options())
    for (const std::string& flag : option->get_lnames()) flags.push_back("--" + flag);
  std::vector<std::string> rest = command->remaining();
  if (rest.empty()) rest = app.remaining(true);
  bool is_extra =
      dynamic_cast<const CLI::ExtrasError*>(&error) || dynamic_cast<const CLI::RequiredError*>(&error);
  if (is_extra && !rest.empty()) {
    std::string word = rest.front();
    if (word == "-")
      return fmt::format("{}: the standard input cannot be used here (see {} --help)", name, name);
    const std::string ours = ours_of_flag(word, command->get_name());
    if (!ours.empty() && (word.starts_with("-") || word.find('=') != std::string::npos))
      return fmt::format("{}: no {} {}, {} (see {} --help)", name,
                         word.starts_with("-") ? "flag" : "argument", word, ours, name);
    if (word.starts_with("-"))
      return fmt::format("{}: unknown flag {}{} (see {} --help)", name, word,
                         did_you_mean(nearest_name(word.substr(0, word.find('=')), flags), ""), name);
    if (const std::string own = &app == command ? ours_of_command(word) : ""; !own.empty())
      return fmt::format("{}: no command \"{}\", use {} instead (see {} {} --help)", name, word, own, name,
                         own);
    if (!subcommands.empty())
      return fmt::format("{}: unknown command \"{}\"{} (see {} --help)", name, word,
                         did_you_mean(nearest_name(word, subcommands)), name);
    return fmt::format("{}: unexpected argument \"{}\" (see {} --help)", name, word, name);
  }
  if (command->get_require_subcommand_min() > 0 && dynamic_cast<const CLI::RequiredError*>(&error))
    return fmt::format("{}: expected a command, one of {}", name, fmt::join(subcommands, ", "));
  return fmt::format("{}: {} (see {} --help)", name,
                     with_given_name(in_our_words(*command, error), *command, words), name);
}

// Training handles signals itself: it saves first.
int run_action(const std::function<int()>& action, bool is_training) {
  try {
    start_threads();
    if (is_training) return action();
    RemoveOnSignals signals;
    try {
      return action();
    } catch (...) {
      signals.wait_if_ending();
      throw;
    }
  } catch (...) {
    const CommandFailure failure = current_failure(is_training);
    return fail_with(failure.status, failure.line);
  }
}

// The command fails if its output could not be written.
int with_checked_stdout(int status) {
  const std::string problem = stdout_problem();
  if (problem.empty() || status != 0) return status;
  return fail_with(1, "cannot write to the standard output: " + problem);
}

// CLI11 takes "[a,b]" for a list of two words; "./[a,b]" names the same file.
std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {  // CLI11 expects the reverse order
    std::string_view word = argv[i];
    words.push_back(word.starts_with('[') && word.ends_with(']') ? fmt::format("./{}", word)
                                                                 : std::string(word));
  }
  // Forms that users of other programs try: `help [COMMAND]`, `version` and `-V`.
  if (!words.empty() && words.back() == "help") {
    words.pop_back();
    words.insert(words.begin(), "--help");
  } else if (words.size() == 1 && (words[0] == "version" || words[0] == "-V")) {
    words[0] = "--version";
  }
  return words;
}

// Flags for completion scripts and packaging: `--complete WORD...` prints what may stand in place of the last
// word, and `--manual DIR` writes the pages of the manual.
bool is_for_packages(std::string_view flag) { return flag == "--complete" || flag == "--manual"; }

int run_for_packages(const CLI::App& app, int argc, const char* const* argv) {
  if (std::string_view(argv[1]) == "--complete") {
    std::string text;
    for (const std::string& word : complete_words(app, {argv + 2, argv + argc})) text += word + "\n";
    print_text(text);
    return 0;
  }
  return run_action(
      [&] {
        if (!*argv[2]) fail_input("--manual: the name is empty, expected a folder");
        for (const ManualPage& page : manual_pages(app, SACCADE_VERSION))
          write_file(std::string(argv[2]) + "/" + page.name, page.text);
        return 0;
      },
      false);
}

}  // namespace

CommandFailure current_failure(bool is_training) {
  try {
    throw;
  } catch (const InputError& error) {
    return {2, error.what()};
  } catch (const OutOfMemory& error) {
    return {1, error.what() + std::string(is_training ? ". A smaller data.batch_size, train.recompute "
                                                        "or precision: bf16 needs less memory"
                                                      : "")};
  } catch (const std::bad_alloc&) {
    return {1, "out of memory"};
  } catch (const std::filesystem::filesystem_error& error) {
    return failure_of(error);
  } catch (const std::system_error& error) {
    const bool of_threads = error.code() == std::errc::resource_unavailable_try_again;
    return {1, of_threads ? "no more threads can be started: the limit on processes or memory is reached"
                          : error.what()};
  } catch (const std::exception& error) {
    return {1, error.what()};
  }
}

void prepare_process() {
  occupy_standard_streams();
  // A closed pipe and a limit on file sizes are write errors, not signals that end the work.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int run_command_line(int argc, const char* const* argv) {
  CLI::App app("Trains, evaluates and runs object detectors, segmentation models and image classifiers.",
               "saccade");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer("`saccade COMMAND --help` explains a command and shows examples.");
  Action action;
  action.defines_all = argc > 2 && is_for_packages(argv[1]);
  add_commands(app, action);
  if (action.defines_all) return run_for_packages(app, argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::string flag = flag_without_value(words); !flag.empty())
    return fail_with(2, flag + ": the value after \"=\" is empty");
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int status = app.exit(success, text);
    print_text(text.str());
    return with_checked_stdout(status);
  } catch (const CLI::ParseError& error) {
    return fail_with(2, explain(app, error, words));
  }
  return with_checked_stdout(run_action(action.run, app.got_subcommand("train")));
}

}  // namespace saccade
