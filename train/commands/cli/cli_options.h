// Helpers that define commands and their options (cli_commands.cpp, cli_data.cpp).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/cpu/thread_team.h"
#include "core/tensor/error.h"
#include "train/commands/cli/cli_commands.h"
#include "train/config/quick_flags.h"
#include "train/config/schema/config_changes.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/text.h"
#include "train/logs/print.h"

namespace saccade {

template <class T, class Fits>
inline CLI::Validator number(const std::string& expected, Fits fits) {
  return CLI::Validator(
      [=](std::string& text) {
        T value{};
        return parse_number(text, value) && fits(value)
                   ? ""
                   : fmt::format("\"{}\" is not valid, expected {}", shortened(text), expected);
      },
      "");
}
inline CLI::Validator at_least(int64_t low) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        int64_t value = 0;
        if (parse_number(text, value) && value >= low) return "";
        const bool is_long = text.size() > 18 && text.find_first_not_of("0123456789") == std::string::npos;
        return fmt::format(
            "\"{}\" is not valid, expected a whole number of at least {}{}", shortened(text), low,
            is_long ? fmt::format(" and at most {}", std::numeric_limits<int64_t>::max()) : "");
      },
      "");
}
inline CLI::Validator whole(int64_t low, int64_t high) {
  return number<int64_t>(fmt::format("a whole number from {} to {}", low, high),
                         [=](int64_t value) { return value >= low && value <= high; });
}
inline CLI::Validator real(double low, double high) {
  return number<double>(fmt::format("a number from {} to {}", low, high),
                        [=](double value) { return value >= low && value <= high; });
}

inline void add_threads(CLI::App* command) {
  command
      ->add_option_function<int>(
          "--threads", set_thread_count,
          "compute threads (default: OMP_NUM_THREADS, or one per processor available to this process)")
      ->type_name("N")
      ->check(number<int>(fmt::format("a whole number from 1 to {}", max_threads()),
                          [](int count) { return count >= 1 && count <= max_threads(); }));
}

// Adds a command. Its options, which fill the arguments of `run`, are defined by `define` only when the
// command is parsed, so that a start does not wait for those of other commands.
template <class Arguments>
void add_command(CLI::App& parent, Action& action, const char* name, const char* text,
                 int (*run)(const Arguments&), void (*define)(CLI::App*, Arguments*)) {
  CLI::App* command = parent.add_subcommand(name, text);
  auto arguments = std::make_shared<Arguments>();
  command->callback([&action, arguments, run] { action.run = [arguments, run] { return run(*arguments); }; });
  auto define_all = [command, define, arguments](size_t) {
    define(command, arguments.get());
    add_threads(command);
  };
  if (action.defines_all)
    define_all(0);
  else
    command->preparse_callback(define_all);
}

inline CLI::Validator one_of(std::vector<std::string> words) {
  const std::string shown = fmt::format("{{{}}}", fmt::join(words, ","));  // in the help and for completions
  return CLI::Validator(
      [words = std::move(words)](std::string& text) -> std::string {
        if (std::ranges::find(words, text) != words.end()) return "";
        return fmt::format("\"{}\" is not known, expected one of {}", shortened(text),
                           fmt::join(words, ", "));
      },
      shown);
}

// Checks names of files and folders: an empty word names none.
inline CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "the name is empty" : ""; }, "");
}

// Adds an option; `type` is the word that stands for its value in the help.
template <class T>
CLI::Option* option(CLI::App* command, const char* flag, T& value, const char* type, const char* text) {
  CLI::Option* added = command->add_option(flag, value, text)->type_name(type);
  const std::string_view kind = type;
  return kind == "FILE" || kind == "DIR" ? added->check(not_empty()) : added;
}
// Adds an option that may be repeated: each occurrence adds to the list.
inline CLI::Option* repeated(CLI::App* command, const char* flag, std::vector<std::string>& values,
                             const char* type, const char* text) {
  return option(command, flag, values, type, text)->expected(1)->take_all();
}
// Adds an argument without a flag.
template <class T>
void positional(CLI::App* command, const char* name, T& value, const char* text, bool is_required = true) {
  command->add_option(name, value, text)->required(is_required)->check(not_empty());
}
template <class T>
CLI::Option* required(CLI::App* command, const char* flag, T& value, const char* type, const char* text) {
  return option(command, flag, value, type, text)->required();
}

inline void add_device(CLI::App* command, std::string& device) {
  option(command, "--device", device, "NAME", "auto, cpu, cuda or cuda:NUMBER (default auto)");
}

inline void add_json(CLI::App* command, std::string& json) {
  option(command, "--json", json, "FILE", "write the metrics to this file at full precision");
}

inline CLI::Option* add_set(CLI::App* command, std::vector<std::string>& set,
                            const char* text = "change a config field: path.to.field=value (repeatable)") {
  return repeated(command, "--set", set, "PATH=VALUE", text)->each([](const std::string& assignment) {
    const std::string path = assignment.substr(0, assignment.find('=')), today = path_of_today(path);
    if (path != today) print_note(fmt::format("note: --set {}: the field is now {}", shortened(path), today));
  });
}
// --set for a checkpoint: fields that affect inference alone. Other arguments may follow.
inline void add_inference_set(CLI::App* command, std::vector<std::string>& set) {
  const std::string text = "change a field that only affects inference (repeatable): " + inference_fields();
  add_set(command, set, text.c_str())->allow_extra_args(false);
}

inline void add_precision(CLI::App* c, std::string& precision) {
  option(c, "--precision", precision, "NAME", "compute in f32, tf32, bf16 or auto (default: as in training)")
      ->check(one_of({"f32", "tf32", "bf16", "auto"}));
}

inline CLI::Validator batch_sizes() { return whole(1, 65536); }
inline void add_batch_size(CLI::App* c, int64_t& size, const char* text) {
  option(c, "--batch-size,--batch", size, "N", text)->check(batch_sizes());
}

// The flags for the settings that most trainings change.
inline CLI::Option* add_image_size(CLI::App* command, int64_t& size, const char* text) {
  return option(command, "--image-size", size, "N", text)->check(whole(16, 16384));
}
inline void add_quick_flags(CLI::App* command, QuickFlags& flags) {
  option(command, "--epochs", flags.epochs, "N",
         "passes over the training images; settings that start or end at an epoch move in proportion")
      ->check(whole(1, 1'000'000));
  option(command, "--batch", flags.batch, "N",
         "batch size; batches are accumulated so that a step has about as many images as before")
      ->check(batch_sizes());
  add_image_size(
      command, flags.image_size,
      "image size for training and evaluation: the longer side of a fixed size, otherwise the shorter "
      "side; other lengths scale with it");
  option(command, "--lr", flags.learning_rate, "X", "the learning rate")
      ->check(
          number<double>("a number above 0 and at most 1000", [](double x) { return x > 0 && x <= 1000; }));
}

// Data sets in folders of the usual layouts; several are merged.
inline CLI::Option* add_data(CLI::App* command, std::vector<std::string>& data, const char* text) {
  return repeated(command, "--data", data, "DIR", text);
}
inline void add_classes(CLI::App* command, std::vector<std::string>& classes, const char* text) {
  option(command, "--classes", classes, "NAME,...", text)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(not_empty());
}

// --set for commands without a general one: which classes count, and under which names.
inline void add_class_set(CLI::App* command, std::vector<std::string>& set) {
  add_set(command, set,
          "rename, merge or drop classes, as train --set data.class_map.NAME=AS does (repeatable)")
      ->allow_extra_args(false);
}

inline void add_allow_outside(CLI::App* command, bool& allow_outside) {
  command->add_flag("--allow-outside", allow_outside,
                    "allow images outside their folder: absolute names, \"..\", links");
}

}  // namespace saccade
