// Applies --set path.to.field=value.
#include <fmt/ranges.h>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/config/config.h"
#include "train/config/habits.h"
#include "train/config/schema/config_changes.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/schema/rules.h"
#include "train/config/text.h"

namespace saccade {

namespace {

// Splits "[a, b]" and "a,b" into their elements.
std::vector<std::string> list_elements(std::string text) {
  text = trim(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    text = trim(text.substr(1, text.size() - 2));
  if (text.empty()) return {};
  std::vector<std::string> elements;
  for (const std::string& part : split(text, ',')) elements.push_back(trim(part));
  return elements;
}

bool in_quotes(const std::string& text) {
  return text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
}

void set_scalar(pb::Message& m, const pb::FieldDescriptor* f, const std::string& value,
                const std::string& where) {
  if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING) {
    if (in_quotes(value)) {
      std::string wrong = parse_value(m, f, value);
      if (!wrong.empty()) fail_input("{}: {}", where, shortened(wrong, 200));
    } else if (f->is_repeated()) {
      m.GetReflection()->AddString(&m, f, value);
    } else {
      m.GetReflection()->SetString(&m, f, value);
    }
    return;
  }
  // The parser would accept an element that is itself a list as several elements.
  if (value.empty() || value[0] == '[' || !parse_value(m, f, value).empty())
    fail_input("{}: \"{}\" is not valid, expected {}", where, shortened(value), expected_value(f));
}

void set_field(pb::Message& m, const pb::FieldDescriptor* f, const std::string& value,
               const std::string& where) {
  const pb::Reflection* r = m.GetReflection();
  if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
    if (f->is_repeated() && trim(value) == "[]") return r->ClearField(&m, f);
    std::string text = trim(value);
    if (text.empty() || text.front() != '{')
      fail_input("{}: is a group of fields ({}), set one of them, or give a textproto in braces", where,
                 fmt::join(field_names(f->message_type()), ", "));
    if (!f->is_repeated()) r->ClearField(&m, f);
    std::string wrong = parse_value(m, f, text);
    if (!wrong.empty()) fail_input("{}: {}", where, wrong);
    if (!m.IsInitialized())
      fail_input("{}: {} is not set, but required", where, m.InitializationErrorString());
    // An empty message means that there is no split, as if none were named.
    if (!f->is_repeated() && f->message_type() == config::Split::descriptor() &&
        r->GetMessage(m, f).ByteSizeLong() == 0)
      r->ClearField(&m, f);
    return;
  }
  if (!f->is_repeated()) return set_scalar(m, f, trim(value), where);
  r->ClearField(&m, f);
  for (const std::string& element : list_elements(value)) set_scalar(m, f, element, where);
}

// Notes the fields of a group that were set before and that the new braces do not set.
void note_lost(const Config& before, const Config& after, const std::string& path,
               std::vector<std::string>& notes) {
  std::vector<std::string> lost;
  for (const ConfigChange& change : config_changes(before, after))
    if (change.to == "none") lost.push_back(change.field);
  if (lost.empty()) return;
  notes.push_back(fmt::format("note: --set {}: replaces the whole group; {} no longer set: {}{}", path,
                              count_of(std::ssize(lost), "field is", "fields are"), lost[0],
                              lost.size() == 1 ? "" : ", ..."));
}

// Sets the value of a keyed argument; its type follows from its form.
void set_arg_value(config::Arg& arg, const std::string& text, const std::string& where) {
  int64_t whole = 0;
  double number = 0;
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    bool all_whole = true;
    for (const std::string& element : list_elements(text)) {
      if (!parse_number(element, number)) fail_input("{}: \"{}\" is not a number", where, shortened(element));
      all_whole = all_whole && parse_number(element, whole);
      arg.add_floats(number);
      arg.add_ints(whole);
    }
    if (all_whole)
      arg.clear_floats();
    else
      arg.clear_ints();
  } else if (text == "true" || text == "false") {
    arg.set_bool_(text == "true");
  } else if (parse_number(text, whole)) {
    arg.set_int_(whole);
  } else if (parse_number(text, number)) {
    arg.set_float_(number);
  } else {
    arg.set_string(in_quotes(text) ? text.substr(1, text.size() - 2) : text);
  }
}

void set_arg(pb::Message& m, const pb::FieldDescriptor* f, const std::string& key, const std::string& value,
             const std::string& where) {
  if (key.empty()) fail_input("{}: expected {}.KEY=value", where, where);
  const pb::Reflection* r = m.GetReflection();
  config::Arg* entry = nullptr;
  for (int i = 0; i < r->FieldSize(m, f); ++i) {
    auto* arg = static_cast<config::Arg*>(r->MutableRepeatedMessage(&m, f, i));
    if (arg->key() == key) entry = arg;
  }
  if (!entry) entry = static_cast<config::Arg*>(r->AddMessage(&m, f));
  entry->Clear();
  entry->set_key(key);
  set_arg_value(*entry, trim(value), where);
}

// Class names may contain any characters, including dots.
void set_class_mapping(config::Data& data, const std::string& name, const std::string& as,
                       const std::string& where) {
  if (name.empty()) fail_input("{}: expected data.class_map.NAME=AS", where);
  config::ClassMapping* entry = nullptr;
  for (config::ClassMapping& mapping : *data.mutable_class_map())
    if (mapping.name() == name) entry = &mapping;
  if (!entry) entry = data.add_class_map();
  entry->set_name(name);
  entry->set_as(in_quotes(as) ? as.substr(1, as.size() - 2) : as);
}

}  // namespace

void apply_set(Config& config, const std::string& assignment, std::vector<std::string>* notes) {
  size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    fail_input("--set {}: expected path.to.field=value", shortened(assignment));
  const std::string path = path_of_today(trim(assignment.substr(0, equals)));
  const std::string value = assignment.substr(equals + 1);
  const std::vector<std::string> names = split(path, '.');
  pb::Message* m = &config;
  std::string done;
  for (size_t i = 0; i < names.size(); ++i) {
    const pb::FieldDescriptor* f = m->GetDescriptor()->FindFieldByName(names[i]);
    if (const std::string ours = f || i > 0 ? "" : ours_of_flag(names[i], "train"); !ours.empty())
      fail_input("--set {}: no field \"{}\" in the configuration; {}", shortened(path), shortened(names[i]),
                 ours);
    if (!f)
      fail_input("--set {}: {}", shortened(path),
                 no_field(names[i], m->GetDescriptor(), done, done.empty() ? "the configuration" : done));
    done += (done.empty() ? "" : ".") + names[i];
    bool last = i + 1 == names.size();
    if (last) {
      const bool is_group = f->message_type() && !f->is_repeated();
      const Config before = is_group ? config : Config();
      set_field(*m, f, value, "--set " + path);
      move_fields(config);
      if (is_group && notes && m->GetReflection()->HasField(*m, f)) note_lost(before, config, path, *notes);
      return;
    }
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)
      fail_input("--set {}: {} is {}, so it has no fields of its own", path, done, expected_value(f));
    if (!f->is_repeated()) {
      m = m->GetReflection()->MutableMessage(m, f);
    } else if (f->message_type() == config::ClassMapping::descriptor()) {
      const std::string name = path.substr(std::min(path.size(), done.size() + 1));
      return set_class_mapping(*config.mutable_data(), name, trim(value), "--set " + path);
    } else if (f->message_type() == config::Arg::descriptor()) {
      if (i + 2 != names.size()) fail_input("--set {}: expected {}.KEY=value", path, done);
      return set_arg(*m, f, names[i + 1], value, "--set " + path);
    } else {
      int size = m->GetReflection()->FieldSize(*m, f), index = -1;
      if (!parse_number(names[++i], index) || index < 0 || index >= size)
        fail_input("--set {}: \"{}\" is not an index of {}, which has {}", path, shortened(names[i]), done,
                   count_of(size, "element", "elements"));
      done += "." + names[i];
      if (i + 1 == names.size()) fail_input("--set {}: expected {}.FIELD=value", path, done);
      m = m->GetReflection()->MutableRepeatedMessage(m, f, index);
    }
  }
}

void use_data(Config& config, const DataFlags& flags) {
  config::Data& data = *config.mutable_data();
  if (!flags.folders.empty()) {
    data.set_folder(flags.folders.front());
    data.mutable_more_folders()->Assign(flags.folders.begin() + 1, flags.folders.end());
    data.clear_train();
    data.clear_val();
    data.clear_more_train();
    data.clear_more_val();
  }
  if (!flags.classes.empty()) data.mutable_classes()->Assign(flags.classes.begin(), flags.classes.end());
}

}  // namespace saccade
