// Reflection over the configuration schema, shared by the parts of train/config/config.h.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

namespace saccade {

std::vector<std::string> field_names(const google::protobuf::Descriptor* type);
std::string enum_names(const google::protobuf::EnumDescriptor* type);  // "f32, tf32, bf16"

// The numbers that a dotted path of field names reaches: one (set or default), one per element of a list
// (with the index in the path), none where a list on the way is empty or the number has neither value nor
// default.
struct NumberField {
  std::string path;
  double value;
};
std::vector<NumberField> numbers_at(const google::protobuf::Message& message, const std::string& path);

// Sets every unset field that has an explicit default, recursively. Messages in which nothing has a default
// (Layer, Split) stay absent: their absence means something.
void write_defaults(google::protobuf::Message& message);

}  // namespace saccade
