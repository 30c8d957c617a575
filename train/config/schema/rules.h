// The rules that configs/saccade.proto writes next to its fields: checks values against them, and puts them
// into words.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "configs/rules.pb.h"

namespace saccade {

const config::Rule& rule_of(const google::protobuf::FieldDescriptor* field);
// The same, with on_resume and of_inference inherited from `above`, the rule of the field that holds the
// message.
config::Rule rule_within(const config::Rule& above, const google::protobuf::FieldDescriptor* field);

// The names in a registry, which a field of the schema may name.
std::vector<std::string> registered_names(const std::string& registry);

// "1 to 64 pixels", "more than 0, at most 1", "sine, learned"; empty where the type says it all.
std::string allowed_text(const google::protobuf::FieldDescriptor* field);
// What a value must be to be one of the field's type, for messages: "a whole number from 1 to 64", "a
// number", "one of f32, bf16", "true or false".
std::string expected_value(const google::protobuf::FieldDescriptor* field);

// Throws InputError naming the first value in `message`, or in messages within it, that breaks its field's
// rule. `path` leads to the message ("model"; empty for a whole configuration).
void check_rules(const google::protobuf::Message& message, const std::string& path = "");

// The tables of configs/README.md: every message and its fields.
std::string config_tables();

}  // namespace saccade
