#include "train/config/schema/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "core/kernels/optimizer/optimizer.h"
#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/formats/data_format.h"
#include "layers/attention.h"
#include "layers/name_patterns.h"
#include "models/backbone.h"
#include "models/build.h"
#include "train/config/schema/config_fields.h"
#include "train/optimizers/schedule.h"

namespace saccade {

using pb::FieldDescriptor;

std::vector<std::string> registered_names(const std::string& registry) {
  using Names = std::vector<std::string>;
  static const std::map<std::string, Names (*)()> kRegistries = {
      {"attention", [] { return attention_layers().names(); }},
      {"backbone", [] { return backbones().names(); }},
      {"data format", [] { return data_formats().names(); }},
      {"evaluator",
       [] {
         Names names;
         for (const auto& [task, known] : evaluators_by_task())
           for (const std::string& name : known.names()) names.push_back(name);
         return names;
       }},
      {"model", [] { return model_types().names(); }},
      {"optimizer", [] { return kernels::optimizers().names(); }},
      {"schedule", [] { return schedules().names(); }},
  };
  auto it = kRegistries.find(registry);
  SACCADE_CHECK(it != kRegistries.end(), "[config] no registry \"{}\"", registry);
  return it->second();
}

namespace {

// Writes 65536, 0.5, 1e9.
std::string number_text(double x) {
  if (std::abs(x) < 1e6) return fmt::format("{}", x);
  std::string text = fmt::format("{:g}", x);
  return text.erase(text.find('e') + 1, text.find_first_not_of("e+0", text.find('e')) - text.find('e') - 1);
}

bool within(const config::Rule& rule, double x) {
  return std::isfinite(x) && !(rule.has_min() && x < rule.min()) && !(rule.has_max() && x > rule.max()) &&
         !(rule.has_above() && x <= rule.above()) && !(rule.has_below() && x >= rule.below());
}

std::string range_text(const config::Rule& rule) {
  std::string low, high;
  if (rule.has_min()) low = "at least " + number_text(rule.min());
  if (rule.has_above()) low = "more than " + number_text(rule.above());
  if (rule.has_max()) high = "at most " + number_text(rule.max());
  if (rule.has_below()) high = "less than " + number_text(rule.below());
  std::string text = low + (low.empty() || high.empty() ? "" : ", ") + high;
  if (rule.has_min() && rule.has_max())
    text = fmt::format("{} to {}", number_text(rule.min()), number_text(rule.max()));
  return text.empty() || rule.unit().empty() ? text : text + " " + rule.unit();
}

// index < 0 for a field that is not a list.
void check_value(const pb::Message& m, const FieldDescriptor* f, int index, const std::string& path) {
  const config::Rule& rule = rule_of(f);
  const std::string value = value_text(m, f, index);
  auto refuse_unless_in = [&](const auto& choices) {
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      fail_input("{}: \"{}\" is not known, expected one of {}", path, shortened(value),
                 fmt::join(choices, ", "));
  };
  if (rule.choice_size() > 0) refuse_unless_in(rule.choice());
  const bool is_unset = value.empty() && !f->has_default_value();
  if (rule.has_registry() && !is_unset) refuse_unless_in(registered_names(rule.registry()));
  if (rule.regex()) NamePatterns({value}, path);
  if (is_number(f) && !within(rule, number_of(m, f, index)))
    fail_input("{}: {} is out of range, expected {}", path, value, allowed_text(f));
}

}  // namespace

const config::Rule& rule_of(const FieldDescriptor* field) {
  return field->options().GetExtension(config::rule);
}

config::Rule rule_within(const config::Rule& above, const FieldDescriptor* field) {
  config::Rule rule = rule_of(field);
  if (above.has_on_resume()) rule.set_on_resume(above.on_resume());
  if (above.has_of_inference()) rule.set_of_inference(above.of_inference());
  return rule;
}

std::string allowed_text(const FieldDescriptor* field) {
  const config::Rule& rule = rule_of(field);
  if (rule.choice_size() > 0) return fmt::format("{}", fmt::join(rule.choice(), ", "));
  return range_text(rule);
}

namespace {

template <class T>
std::string whole_range(const config::Rule& rule) {
  std::string low = std::to_string(std::numeric_limits<T>::min()),
              high = std::to_string(std::numeric_limits<T>::max());
  if (rule.has_min()) low = std::to_string(static_cast<T>(rule.min()));
  if (rule.has_max()) high = std::to_string(static_cast<T>(rule.max()));
  return fmt::format("a whole number from {} to {}", low, high);
}

}  // namespace

std::string expected_value(const FieldDescriptor* field) {
  const config::Rule& rule = rule_of(field);
  if (field->enum_type()) return "one of " + enum_names(field->enum_type());
  if (rule.choice_size() > 0) return "one of " + allowed_text(field);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_INT32:
      return whole_range<int32_t>(rule);
    case FieldDescriptor::CPPTYPE_INT64:
      return whole_range<int64_t>(rule);
    case FieldDescriptor::CPPTYPE_UINT64:
      return whole_range<uint64_t>(rule);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a group of fields in braces";
    default:
      return "a string";
  }
}

void check_rules(const pb::Message& message, const std::string& path) {
  const pb::Reflection* r = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(message, &fields);
  for (const FieldDescriptor* f : fields) {
    const std::string name = path.empty() ? f->name() : path + "." + f->name();
    const int count = f->is_repeated() ? r->FieldSize(message, f) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = f->is_repeated() ? i : -1;
      const std::string element = f->is_repeated() ? fmt::format("{}.{}", name, i) : name;
      if (!f->message_type())
        check_value(message, f, index, element);
      else
        check_rules(f->is_repeated() ? r->GetRepeatedMessage(message, f, i) : r->GetMessage(message, f),
                    element);
    }
  }
}

}  // namespace saccade
