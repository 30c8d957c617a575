#include "train/config/schema/config_fields.h"

#include <fmt/ranges.h>
#include <google/protobuf/text_format.h>

#include <charconv>

#include "core/files/nearest.h"
#include "core/tensor/error.h"
#include "train/config/config.h"
#include "train/config/schema/rules.h"

namespace saccade {

namespace {

bool has_defaults(const pb::Descriptor* type) {
  for (const pb::FieldDescriptor* f : fields_of(type)) {
    if (f->has_default_value()) return true;
    if (!f->is_repeated() && f->message_type() && has_defaults(f->message_type())) return true;
  }
  return false;
}

// Returns "lr" for "learning_rate".
std::string initials(const std::string& name) {
  std::string letters;
  for (size_t i = 0; i < name.size(); ++i)
    if (i == 0 || name[i - 1] == '_') letters += name[i];
  return letters.size() > 1 ? letters : "";
}

// Returns the path of the first field of the message, or of messages in it, whose name fits; empty if none.
template <class Fits>
std::string find_field(const pb::Descriptor* type, const std::string& path, Fits fits) {
  const std::string before = path.empty() ? "" : path + ".";
  for (const std::string& name : field_names(type))
    if (fits(name)) return before + name;
  for (const pb::FieldDescriptor* f : fields_of(type)) {
    if (f->is_repeated() || f->message_type() == nullptr) continue;
    if (std::string found = find_field(f->message_type(), before + f->name(), fits); !found.empty())
      return found;
  }
  return "";
}

// Returns the path of the field that the name probably means; "" if none is near.
std::string nearest_field(const std::string& name, const pb::Descriptor* type, const std::string& path) {
  if (name.empty()) return "";
  const auto is_same = [&](const std::string& other) { return other == name; };
  const auto begins = [&](const std::string& other) { return other.starts_with(name + "_"); };
  const auto has_initials = [&](const std::string& other) { return initials(other) == name; };
  const std::string before = path.empty() ? "" : path + ".";
  for (const std::string& own : field_names(type))
    if (begins(own) || has_initials(own)) return before + own;
  const pb::Descriptor* all = type->file() == Config::descriptor()->file() ? Config::descriptor() : type;
  if (std::string found = find_field(type, path, is_same); !found.empty()) return found;
  for (const std::string& own : field_names(type))
    if (own.ends_with("_" + name)) return before + own;
  for (const std::string& found : {find_field(all, "", is_same), find_field(type, path, has_initials),
                                   find_field(all, "", has_initials)})
    if (!found.empty()) return found;
  const std::string near = nearest_name(name, field_names(type));
  return near.empty() ? "" : before + near;
}

}  // namespace

std::string no_field(const std::string& name, const pb::Descriptor* type, const std::string& path,
                     const std::string& where) {
  constexpr size_t kMaxListed = 12;
  const std::vector<std::string> known = field_names(type);
  std::string expected = did_you_mean(nearest_field(name, type, path));
  if (expected.empty())
    expected = known.size() <= kMaxListed || type->file() != Config::descriptor()->file()
                   ? fmt::format(", expected one of {}", fmt::join(known, ", "))
                   : " (saccade describe config lists its fields)";
  return fmt::format("no field \"{}\" in {}{}", shortened(name), where, expected);
}

std::vector<const pb::FieldDescriptor*> fields_of(const pb::Descriptor* type) {
  std::vector<const pb::FieldDescriptor*> fields;
  for (int i = 0; i < type->field_count(); ++i)
    if (!rule_of(type->field(i)).has_moved_to()) fields.push_back(type->field(i));
  return fields;
}

std::vector<std::string> field_names(const pb::Descriptor* type) {
  std::vector<std::string> names;
  for (const pb::FieldDescriptor* f : fields_of(type)) names.push_back(f->name());
  return names;
}

std::string enum_names(const pb::EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) names.push_back(type->value(i)->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_number(const pb::FieldDescriptor* f) {
  using F = pb::FieldDescriptor;
  return f->cpp_type() == F::CPPTYPE_INT32 || f->cpp_type() == F::CPPTYPE_INT64 ||
         f->cpp_type() == F::CPPTYPE_UINT64 || f->cpp_type() == F::CPPTYPE_DOUBLE;
}

double number_of(const pb::Message& m, const pb::FieldDescriptor* f, int index) {
  const std::string text = value_text(m, f, index);
  double number = 0;  // it stays 0 for "false"
  std::from_chars(text.data(), text.data() + text.size(), number);
  return text == "true" ? 1 : number;
}

std::vector<double> numbers_of(const pb::Message& m, const pb::FieldDescriptor* f) {
  if (!f->is_repeated()) return {number_of(m, f, -1)};
  std::vector<double> numbers;
  for (int i = 0; i < m.GetReflection()->FieldSize(m, f); ++i) numbers.push_back(number_of(m, f, i));
  return numbers;
}

std::string value_text(const pb::Message& m, const pb::FieldDescriptor* f, int index) {
  const pb::Reflection* r = m.GetReflection();
  if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING)
    return index >= 0 ? r->GetRepeatedString(m, f, index) : r->GetString(m, f);
  std::string text;
  pb::TextFormat::PrintFieldValueToString(m, f, index, &text);
  return text;
}

std::string default_text(const pb::FieldDescriptor* f) {
  std::string text;
  const pb::Message* unset = pb::MessageFactory::generated_factory()->GetPrototype(f->containing_type());
  if (f->has_default_value()) pb::TextFormat::PrintFieldValueToString(*unset, f, -1, &text);
  return text;
}

std::string parse_value(pb::Message& m, const pb::FieldDescriptor* f, const std::string& text) {
  FirstError errors;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (parser.ParseFieldValueFromString(text, f, &m)) return "";
  return errors.message.empty() ? "syntax error" : explain(errors, "", f->name());
}

void write_defaults(pb::Message& m) {
  const pb::Reflection* r = m.GetReflection();
  for (const pb::FieldDescriptor* f : fields_of(m.GetDescriptor())) {
    if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      if (f->is_repeated()) {
        for (int k = 0; k < r->FieldSize(m, f); ++k) write_defaults(*r->MutableRepeatedMessage(&m, f, k));
      } else if (r->HasField(m, f) || has_defaults(f->message_type())) {
        write_defaults(*r->MutableMessage(&m, f));
      }
    } else if (f->has_default_value() && !r->HasField(m, f)) {
      parse_value(m, f, default_text(f));
    }
  }
}

}  // namespace saccade
