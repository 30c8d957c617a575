// Reading a configuration, and what is wrong with one that cannot be read.
#include <google/protobuf/text_format.h>

#include <cctype>
#include <regex>
#include <sstream>

#include "core/formats/file.h"
#include "core/tensor/error.h"
#include "train/config/config.h"
#include "train/config/config_fields.h"
#include "train/config/nearest.h"
#include "train/config/text.h"

namespace saccade {

namespace pb = google::protobuf;

namespace {

std::string line_of(const std::string& text, int number) {
  std::istringstream in(text);
  std::string line;
  for (int i = 0; i <= number; ++i)
    if (!std::getline(in, line)) return "";
  return line;
}

std::string trimmed_line(const std::string& text, int number) {
  std::string line = trim(line_of(text, number));
  return line.size() > 60 ? line.substr(0, 57) + "..." : line;
}

// The parser reports an unknown name at the token that follows it; the user wants the name.
int column_of(const FirstError& error, const std::string& text) {
  static const std::regex kNamed(
      "(?:Message type .* has no field named|Unknown enumeration value of) \"([^\"]+)\".*");
  std::smatch m;
  if (error.column == 0 || !std::regex_match(error.message, m, kNamed)) return error.column;
  size_t at = line_of(text, error.line).rfind(m[1].str(), static_cast<size_t>(error.column));
  return at == std::string::npos ? error.column : static_cast<int>(at);
}

const pb::EnumDescriptor* enum_of_field(const std::string& field) {
  const pb::FileDescriptor* file = Config::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i)
    if (const pb::FieldDescriptor* f = file->message_type(i)->FindFieldByName(field))
      if (f->enum_type()) return f->enum_type();
  return nullptr;
}

// The parser's message in our words, with the nearest name for what is misspelt.
std::string explain(const FirstError& error, const std::string& text) {
  static const std::regex kNoField("Message type \"([^\"]+)\" has no field named \"([^\"]+)\"\\.?");
  static const std::regex kNoEnum("Unknown enumeration value of \"([^\"]+)\" for field \"([^\"]+)\"\\.?");
  std::smatch m;
  const pb::DescriptorPool* pool = pb::DescriptorPool::generated_pool();
  if (std::regex_match(error.message, m, kNoField)) {
    if (const pb::Descriptor* type = pool->FindMessageTypeByName(m[1].str())) {
      std::string nearest = nearest_name(m[2].str(), field_names(type));
      return fmt::format("no field \"{}\" in {}, did you mean \"{}\"?", m[2].str(), type->name(), nearest);
    }
  }
  std::string message = error.message;
  if (std::regex_match(message, m, kNoEnum)) {
    if (const pb::EnumDescriptor* type = enum_of_field(m[2].str()))
      return fmt::format("\"{}\" is not a value of {}, expected one of {}", m[1].str(), m[2].str(),
                         enum_names(type));
  }
  if (!message.empty()) message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
  if (!message.empty() && message.back() == '.') message.pop_back();
  std::string line = trimmed_line(text, error.line);
  return line.empty() ? message : fmt::format("{} (in `{}`)", message, line);
}

}  // namespace

Config parse_config(const std::string& text, const std::string& name) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  Config config;
  bool ok = parser.ParseFromString(text, &config);
  if (!ok && error.message.empty())
    fail_input("{}: not a configuration (textproto of saccade.config.Config)", name);
  if (!ok && error.line < 0) fail_input("{}: {}", name, error.message);
  if (!ok) fail_input("{}:{}:{}: {}", name, error.line + 1, column_of(error, text) + 1, explain(error, text));
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& sets) {
  Config config = parse_config(read_text(path, kConfigFile), path);
  for (const std::string& set : sets) apply_set(config, set);
  return config;
}

}  // namespace saccade
