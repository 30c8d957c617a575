// Reads a configuration, and explains what is wrong with one that cannot be read.
#include <fmt/ranges.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <utility>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/config/config.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/schema/rules.h"
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

// The line and the column of an error. The parser reports an unknown name at the token after it; the user
// wants the position of the name.
std::pair<int, int> place_of(const FirstError& error, const std::string& text) {
  const TwoNames field = unknown_field(error.message), value = unknown_value(error.message);
  const std::pair<int, int> theirs(error.line, error.column);
  if (!field && !value) return theirs;
  const std::string& name = field ? field->second : value->first;
  for (int line = error.line; line >= 0; --line) {
    const std::string whole = line_of(text, line);
    const auto end = static_cast<size_t>(line == error.line ? std::max(error.column, 0) : whole.size());
    if (const size_t at = whole.substr(0, end).rfind(name); at != std::string::npos)
      return {line, static_cast<int>(at)};
  }
  return theirs;
}

// The path of the group of fields that is open at this place: "model.backbone"; "" outside of all.
std::string group_at(const std::string& text, const std::pair<int, int>& place) {
  std::vector<std::string> open;
  std::string name, word;
  int line = 0, column = 0;
  char quote = '\0';
  bool is_comment = false;
  for (size_t i = 0; i < text.size() && std::pair(line, column) < place; ++i, ++column) {
    const char c = text[i];
    if (c == '\n') {
      is_comment = false;
      ++line;
      column = -1;
    }
    if (is_comment) continue;
    if (quote != '\0') {
      if (c == '\\') ++i, ++column;
      if (c == quote) quote = '\0';
      continue;
    }
    const bool is_letter = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (is_letter) word += c;
    if (!is_letter && !word.empty()) name = std::exchange(word, "");
    if (c == '#') is_comment = true;
    if (c == '"' || c == '\'') quote = c;
    if (c == '{' || c == '<') open.push_back(name);
    if ((c == '}' || c == '>') && !open.empty()) open.pop_back();
  }
  return fmt::format("{}", fmt::join(open, "."));
}

template <class Fits>
const pb::FieldDescriptor* field_called(const std::string& name, Fits fits) {
  const pb::FileDescriptor* file = Config::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i)
    if (const pb::FieldDescriptor* f = file->message_type(i)->FindFieldByName(name); f && fits(*f)) return f;
  return nullptr;
}

// The name before the last colon that precedes this place in a line.
std::string name_before(std::string line, int column) {
  line = line.substr(0, static_cast<size_t>(std::max(column, 0)));
  line = trim(line.substr(0, std::min(line.rfind(':'), line.size())));
  const size_t begin =
      line.find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  return begin == std::string::npos ? line : line.substr(begin + 1);
}

// What the parser calls the kind of a value, in our words; "" if it is none of these.
std::string expected_kind(std::string_view kind) {
  for (const auto& [theirs, ours] :
       {std::pair{"identifier", "the name of a field"},
        std::pair{"integer or identifier", "a name without quotes"}, std::pair{"double", "a number"},
        std::pair{"string", "a text in quotes"}})
    if (kind == theirs) return ours;
  return "";
}

std::string not_valid(const std::string& found, const std::string& expected) {
  if (found.empty()) return fmt::format("the text ends here, expected {}", expected);
  const char* quote = found.starts_with('"') ? "" : "\"";
  return fmt::format("{0}{1}{0} is not valid, expected {2}", quote, shortened(found), expected);
}

// The whole number or truth value that is expected at this place.
std::string expected_whole(const FirstError& error, const std::string& text) {
  const pb::FieldDescriptor* field =
      field_called(name_before(line_of(text, error.line), error.column), [](const pb::FieldDescriptor& f) {
        using F = pb::FieldDescriptor;
        return f.cpp_type() == F::CPPTYPE_BOOL || (is_number(&f) && f.cpp_type() != F::CPPTYPE_DOUBLE);
      });
  return field ? expected_value(field) : "a whole number";
}

// Rewrites "Expected integer, got: x", "Expected "{", found "3"." and other messages about a value; returns
// "" for the rest.
std::string wrong_value(const FirstError& error, const std::string& text) {
  constexpr std::string_view kExpected = "Expected ", kGot = ", got: ", kFound = ", found \"",
                             kRange = "Integer out of range (", kTwice = "Non-repeated field \"",
                             kBool = "Invalid value for boolean field \"", kValue = "Value: \"";
  const std::string& message = error.message;
  const size_t quote = message.rfind('"');
  if (message.starts_with(kRange))
    return not_valid(message.substr(kRange.size(), message.rfind(')') - kRange.size()),
                     expected_whole(error, text));
  if (message.starts_with(kTwice) && quote >= kTwice.size())
    return fmt::format("the field \"{}\" is given more than once",
                       message.substr(kTwice.size(), quote - kTwice.size()));
  if (const size_t at = message.find(kValue); message.starts_with(kBool) && at != std::string::npos)
    return not_valid(message.substr(at + kValue.size(), quote - at - kValue.size()), "true or false");
  if (message.starts_with("Interpreting non ascii"))
    return "a character outside of ASCII, which only texts in quotes may contain";
  if (!message.starts_with(kExpected)) return "";
  if (const size_t at = message.find(kGot); at != std::string::npos) {
    const std::string kind = message.substr(kExpected.size(), at - kExpected.size()),
                      found = message.substr(at + kGot.size());
    if (kind == "integer") return not_valid(found, expected_whole(error, text));
    const std::string expected = expected_kind(kind);
    return expected.empty() ? "" : not_valid(found, expected);
  }
  const size_t at = message.find(kFound), end = message.rfind("\".");
  if (at == std::string::npos || end < at + kFound.size()) return "";
  return not_valid(message.substr(at + kFound.size(), end - at - kFound.size()),
                   message.substr(kExpected.size(), at - kExpected.size()));
}

}  // namespace

std::string explain(const FirstError& error, const std::string& text, const std::string& group) {
  const pb::DescriptorPool* pool = pb::DescriptorPool::generated_pool();
  if (const TwoNames names = unknown_field(error.message))
    if (const pb::Descriptor* type = pool->FindMessageTypeByName(names->first)) {
      const std::string place = group.empty() ? group_at(text, place_of(error, text)) : group;
      const bool is_all = type == Config::descriptor();
      return no_field(names->second, type, "",
                      is_all          ? "the configuration"
                      : place.empty() ? type->name()
                                      : place);
    }
  if (const TwoNames names = unknown_value(error.message))
    if (const pb::FieldDescriptor* f =
            field_called(names->second, [](const pb::FieldDescriptor& field) { return field.enum_type(); }))
      return fmt::format("\"{}\" is not a value of {}, expected one of {}", shortened(names->first),
                         names->second, enum_names(f->enum_type()));
  std::string message = wrong_value(error, text);
  if (message.empty()) message = shortened(error.message, 200);
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
  constexpr std::string_view kMissing = "Message missing required fields: ";
  if (!ok && error.message.starts_with(kMissing))
    fail_input("{}: {} is not set, but required", name,
               shortened(error.message.substr(kMissing.size()), 200));
  if (!ok && error.line < 0) fail_input("{}: {}", name, shortened(error.message, 200));
  if (!ok) {
    const auto [line, column] = place_of(error, text);
    fail_input("{}:{}:{}: {}", name, line + 1, column + 1, explain(error, text));
  }
  move_fields(config, name, notes);
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& sets,
                   std::vector<std::string>* notes) {
  std::string text = read_text(path, kConfigFile);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // Notepad's byte-order mark
  Config config = parse_config(text, path, notes);
  if (config.ByteSizeLong() == 0)
    fail_input("{}: sets no field, expected a recipe (configs/ and saccade describe models have some)", path);
  for (const std::string& set : sets) apply_set(config, set, notes);
  return config;
}

}  // namespace saccade
