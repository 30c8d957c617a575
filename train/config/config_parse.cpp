// Reads a configuration, and explains what is wrong with one that cannot be read.
#include <google/protobuf/text_format.h>

#include <optional>
#include <sstream>
#include <utility>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/config/config.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/text.h"

namespace saccade {

namespace {

std::string line_of(const std::string& text, int number) {
  std::istringstream in(text);
  std::string line;
  for (int i = 0; i <= number; ++i)
    if (!std::getline(in, line)) return "";
  return line;
}

std::string trimmed_line(const std::string& text, int number) {
  return shortened(trim(line_of(text, number)), 60);
}

// The two names in a message of the parser: BEGIN"first"MIDDLE"second"...
using TwoNames = std::optional<std::pair<std::string, std::string>>;
TwoNames two_names(const std::string& message, const std::string& begin, const std::string& middle) {
  const std::string before = begin + "\"", between = "\"" + middle + "\"";
  if (!message.starts_with(before)) return std::nullopt;
  const size_t first = before.size(), at = message.find(between, first);
  if (at == std::string::npos) return std::nullopt;
  const size_t second = at + between.size(), end = message.find('"', second);
  if (end == std::string::npos) return std::nullopt;
  return std::pair(message.substr(first, at - first), message.substr(second, end - second));
}
TwoNames unknown_field(const std::string& message) {  // the message type and the field
  return two_names(message, "Message type ", " has no field named ");
}
TwoNames unknown_value(const std::string& message) {  // the value and its field
  return two_names(message, "Unknown enumeration value of ", " for field ");
}

// The parser reports an unknown name at the token after it; the user wants the position of the name.
int column_of(const FirstError& error, const std::string& text) {
  const TwoNames field = unknown_field(error.message), value = unknown_value(error.message);
  if (error.column == 0 || (!field && !value)) return error.column;
  const std::string& name = field ? field->second : value->first;
  size_t at = line_of(text, error.line).rfind(name, static_cast<size_t>(error.column));
  return at == std::string::npos ? error.column : static_cast<int>(at);
}

const pb::EnumDescriptor* enum_of_field(const std::string& field) {
  const pb::FileDescriptor* file = Config::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i)
    if (const pb::FieldDescriptor* f = file->message_type(i)->FindFieldByName(field))
      if (f->enum_type()) return f->enum_type();
  return nullptr;
}

}  // namespace

std::string explain(const FirstError& error, const std::string& text) {
  const pb::DescriptorPool* pool = pb::DescriptorPool::generated_pool();
  if (const TwoNames names = unknown_field(error.message))
    if (const pb::Descriptor* type = pool->FindMessageTypeByName(names->first))
      return fmt::format("no field \"{}\" in {}, did you mean \"{}\"?", shortened(names->second),
                         type->name(), nearest_field(names->second, type, ""));
  if (const TwoNames names = unknown_value(error.message))
    if (const pb::EnumDescriptor* type = enum_of_field(names->second))
      return fmt::format("\"{}\" is not a value of {}, expected one of {}", shortened(names->first),
                         names->second, enum_names(type));
  std::string message = shortened(error.message, 200);
  if (!message.empty()) message = lower_case(message.substr(0, 1)) + message.substr(1);
  if (!message.empty() && message.back() == '.') message.pop_back();
  std::string line = trimmed_line(text, error.line);
  return line.empty() ? message : fmt::format("{} (in `{}`)", message, line);
}

Config parse_config(const std::string& text, const std::string& name, std::vector<std::string>* notes) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  Config config;
  bool ok = parser.ParseFromString(text, &config);
  if (!ok && error.message.empty())
    fail_input("{}: not a configuration (textproto of saccade.config.Config)", name);
  if (!ok && error.line < 0) fail_input("{}: {}", name, shortened(error.message, 200));
  if (!ok) fail_input("{}:{}:{}: {}", name, error.line + 1, column_of(error, text) + 1, explain(error, text));
  move_fields(config, name, notes);
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& sets,
                   std::vector<std::string>* notes) {
  std::string text = read_text(path, kConfigFile);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // Notepad's byte-order mark
  Config config = parse_config(text, path, notes);
  for (const std::string& set : sets) apply_set(config, set, notes);
  return config;
}

}  // namespace saccade
