// Reflection over the configuration schema, shared by the parts of train/config/config.h.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "configs/saccade.pb.h"

namespace saccade {

namespace pb = google::protobuf;

// Keeps the first error of a parse.
struct FirstError : pb::io::ErrorCollector {
  std::string message;  // empty if there is no error yet
  int line = 0, column = 0;
  void AddError(int at_line, pb::io::ColumnNumber at_column, const std::string& text) override {
    if (!message.empty()) return;
    message = text;
    line = at_line;
    column = at_column;
  }
};

// Rewrites the parser's message about the text in our words, with the nearest name for a misspelt one.
// `group` is the path of the group of fields whose text it is.
std::string explain(const FirstError& error, const std::string& text, const std::string& group = "");

// Says that a message of this type has no such field, and which one is probably meant: a field of that name
// elsewhere, one whose words begin with its letters ("lr": learning_rate), else the nearest name in the
// message. `path` is that of the message (empty for the configuration itself, or if it is unknown), `where`
// its name in the text.
std::string no_field(const std::string& name, const pb::Descriptor* type, const std::string& path,
                     const std::string& where);
// The fields of the schema, without old names (Rule::moved_to).
std::vector<const pb::FieldDescriptor*> fields_of(const pb::Descriptor* type);
std::vector<std::string> field_names(const pb::Descriptor* type);
std::string enum_names(const pb::EnumDescriptor* type);  // "f32, tf32, bf16"

bool is_number(const pb::FieldDescriptor* field);
// One value of a field (index < 0 for a field that is not a list): number_of as a number (0 or 1 for a bool),
// value_text any scalar as text (strings without quotes).
double number_of(const pb::Message& message, const pb::FieldDescriptor* field, int index);
// The value of a field, or the values of a list.
std::vector<double> numbers_of(const pb::Message& message, const pb::FieldDescriptor* field);
std::string value_text(const pb::Message& message, const pb::FieldDescriptor* field, int index);

// The default of a field in textproto syntax; empty if it has none.
std::string default_text(const pb::FieldDescriptor* field);
// Reads a value in textproto syntax into the field (appends to a list); returns what is wrong, or "".
std::string parse_value(pb::Message& message, const pb::FieldDescriptor* field, const std::string& text);

// Sets every unset field that has an explicit default, recursively. Messages in which nothing has a default
// (Layer, Split) stay absent, because their absence has a meaning.
void write_defaults(pb::Message& message);

// The messages of `model`, set or not, that its type does not read (ModelSpec::parts).
std::vector<const pb::FieldDescriptor*> other_parts(const config::Model& model);

}  // namespace saccade
