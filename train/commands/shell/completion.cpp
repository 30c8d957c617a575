#include "train/commands/shell/completion.h"

#include <google/protobuf/descriptor.h>

#include <map>
#include <string_view>

#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/data_format.h"
#include "data/labels/label_forms.h"
#include "layers/attention.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/config/recipes.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"
#include "train/config/text.h"
#include "train/logs/print.h"

namespace saccade {

namespace {

using Words = std::vector<std::string>;

// The script asks the program with the words up to the cursor, and offers its answer or file names.
constexpr std::string_view kBashScript =
#include "train/commands/shell/completion.bash.inc"
    ;
constexpr std::string_view kZshScript =
#include "train/commands/shell/completion.zsh.inc"
    ;
constexpr std::string_view kFishScript =
#include "train/commands/shell/completion.fish.inc"
    ;

Words beginning_with(const std::string& start, const Words& words) {
  Words fitting;
  for (const std::string& word : words)
    if (word.starts_with(start)) fitting.push_back(word);
  return fitting;
}

Words recipe_names() {
  Words names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  return names;
}

// For values that no validator lists.
Words known_values(const std::string& name) {
  static const std::map<std::string, Words (*)()> kKnown = {
      {"model", recipe_names},
      {"device",
       [] {
         return Words{"auto", "cpu", "cuda"};
       }},
      {"evaluator", [] { return evaluators("detection").names(); }},
      {"from", [] { return formats_with({.boxes = true}); }},
      {"to",
       [] {
         Words names = readable_forms();
         names.push_back("label_maps");
         return names;
       }},
      {"LAYER",
       [] {
         Words names = attention_layers().names(), more = recipe_names();
         names.insert(names.end(), {"config", "models"});
         names.insert(names.end(), more.begin(), more.end());
         return names;
       }},
  };
  auto it = kKnown.find(name);
  return it == kKnown.end() ? Words() : it->second();
}

Words values_of(const CLI::Option& option, const std::string& start) {
  const std::string type = option.get_type_name();
  if (type.starts_with("PATH=VALUE")) return complete_set(start);
  // one_of makes it "NAME:{train,val,test}".
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open != std::string::npos && close > open) {
    return beginning_with(start, split(type.substr(open + 1, close - open - 1), ','));
  }
  const std::string& name = option.get_single_name();
  if (const Words known = known_values(name); !known.empty()) return beginning_with(start, known);
  if (type.starts_with("DIR") || name == "RUN" || name == "OUT_DIR") return {"FOLDERS"};
  const bool is_file = type.starts_with("FILE") || option.get_positional();
  return is_file ? Words{"FILES"} : Words{};
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Returns the flag of the command that the word names.
const CLI::Option* flag_named(const CLI::App& command, const std::string& word) {
  if (!word.starts_with("-")) return nullptr;
  for (const CLI::Option* option : command.get_options())
    if (option->check_name(word)) return option;
  return nullptr;
}

// Returns the message type at a path such as "model.backbone"; null if there is none.
const pb::Descriptor* type_at(const std::string& path) {
  const pb::Descriptor* type = Config::descriptor();
  for (const std::string& name : split(path, '.')) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
      continue;  // index in a list
    const pb::FieldDescriptor* field = type->FindFieldByName(name);
    type = field ? field->message_type() : nullptr;
    if (!type) return nullptr;
  }
  return type;
}

Words values_of_field(const pb::FieldDescriptor* field) {
  const config::Rule& rule = rule_of(field);
  if (rule.has_registry()) return registered_names(rule.registry());
  if (rule.choice_size() > 0) return {rule.choice().begin(), rule.choice().end()};
  if (field->type() == pb::FieldDescriptor::TYPE_BOOL) return {"false", "true"};
  if (const pb::EnumDescriptor* type = field->enum_type()) {
    Words names;
    for (int i = 0; i < type->value_count(); ++i) names.push_back(type->value(i)->name());
    return names;
  }
  const std::string value = field->is_repeated() || field->message_type() ? "" : default_text(field);
  return value.empty() ? Words() : Words{value};
}

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return std::string(kBashScript);
  if (shell == "zsh") return std::string(kZshScript);
  if (shell == "fish") return std::string(kFishScript);
  fail_input("completion: \"{}\", expected bash, zsh or fish", shortened(shell));
}

int run_completion(const CompletionArguments& arguments) {
  print_text(completion_script(arguments.shell));
  return 0;
}

Words complete_set(const std::string& word) {
  const size_t equals = word.find('=');
  const std::string path = word.substr(0, equals);
  const size_t dot = path.rfind('.');
  const std::string before = dot == std::string::npos ? "" : path.substr(0, dot + 1);
  const std::string name = path.substr(before.size());
  const pb::Descriptor* type = before.empty() ? Config::descriptor() : type_at(path.substr(0, dot));
  if (!type) return {};
  Words words;
  if (equals != std::string::npos) {
    const pb::FieldDescriptor* field = type->FindFieldByName(name);
    if (!field) return {};
    // For a list, the value after the last comma.
    const size_t comma = field->is_repeated() ? word.rfind(',') : std::string::npos;
    const std::string given = word.substr(0, (comma == std::string::npos ? equals : comma) + 1);
    for (const std::string& value : values_of_field(field)) words.push_back(given + value);
  } else {
    for (const pb::FieldDescriptor* field : fields_of(type)) {
      const bool goes_on = field->message_type() && !field->is_repeated();
      words.push_back(before + field->name() + (goes_on || field->name() == "arg" ? "." : "="));
    }
  }
  return beginning_with(word, words);
}

Words complete_words(const CLI::App& app, const Words& words) {
  if (words.size() < 2) return {};
  const std::string& last = words.back();
  const CLI::App* command = &app;
  const CLI::Option* waiting = nullptr;  // the option whose value comes next
  size_t positionals = 0;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (waiting) {
      waiting = nullptr;
      continue;
    }
    const auto below = command->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (!below.empty()) {
      command = below.front();
      positionals = 0;
    } else if (const CLI::Option* option = flag_named(*command, word)) {
      if (takes_value(*option)) waiting = option;
    } else if (!word.starts_with("-")) {
      ++positionals;
    }
  }
  if (waiting) return values_of(*waiting, last);
  if (const size_t equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = flag_named(*command, last.substr(0, equals));
    Words values = option ? values_of(*option, last.substr(equals + 1)) : Words();
    for (std::string& value : values)
      if (value != "FILES" && value != "FOLDERS") value.insert(0, last.substr(0, equals + 1));
    return values;
  }
  Words choices;
  for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; }))
    choices.push_back(sub->get_name());
  if (last.starts_with("-")) {
    choices.clear();
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) choices.push_back("--" + name);
  }
  if (!choices.empty()) return beginning_with(last, choices);
  const CLI::Option* place = nullptr;  // the argument at this place; the last one takes all that follow
  for (const CLI::Option* option : command->get_options())
    if (option->get_positional() && (!place || positionals-- > 0)) place = option;
  return place ? values_of(*place, last) : Words();
}

}  // namespace saccade
