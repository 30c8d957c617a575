// Reflection over the configuration schema, shared by the parts of train/config/config.h.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

namespace saccade {

std::vector<std::string> field_names(const google::protobuf::Descriptor* type);
std::string enum_names(const google::protobuf::EnumDescriptor* type);  // "f32, tf32, bf16"

bool is_number(const google::protobuf::FieldDescriptor* field);
// One value of a field, index < 0 for a field that is not a list: a number, and any scalar as text (strings without quotes).
double number_of(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor* field,
                 int index);
// The value of a field, or those of a list; a bool is 0 or 1.
std::vector<double> numbers_of(const google::protobuf::Message& message,
                               const google::protobuf::FieldDescriptor* field);
std::string value_text(const google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor* field, int index);

// Sets every unset field that has an explicit default, recursively. Messages in which nothing has a default
// (Layer, Split) stay absent: their absence means something.
void write_defaults(google::protobuf::Message& message);

}  // namespace saccade
