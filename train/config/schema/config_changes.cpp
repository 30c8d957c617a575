#include "train/config/schema/config_changes.h"

#include <fmt/ranges.h>
#include <google/protobuf/text_format.h>

#include "core/tensor/error.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"

namespace saccade {

namespace {

std::string short_text(const pb::Message& m) {
  pb::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(m, &text);
  if (text.ends_with(' ')) text.pop_back();
  return "{" + text + "}";
}

// The whole value of a field.
std::string field_text(const pb::Message& m, const pb::FieldDescriptor* f) {
  const pb::Reflection* r = m.GetReflection();
  auto one = [&](int index) -> std::string {
    if (f->message_type())
      return short_text(index >= 0 ? r->GetRepeatedMessage(m, f, index) : r->GetMessage(m, f));
    std::string text;
    pb::TextFormat::PrintFieldValueToString(m, f, index, &text);
    return text;
  };
  if (!f->is_repeated()) return r->HasField(m, f) ? one(-1) : "none";
  if (r->FieldSize(m, f) == 0) return "none";
  std::string text;
  for (int i = 0; i < r->FieldSize(m, f); ++i) text += (i == 0 ? "" : ", ") + one(i);
  return "[" + text + "]";
}

// above: the rule of the field that holds these messages.
void compare(const pb::Message& from, const pb::Message& to, const std::string& path,
             const config::Rule& above, std::vector<ConfigChange>& out) {
  const pb::Reflection* r = from.GetReflection();
  for (const pb::FieldDescriptor* f : fields_of(from.GetDescriptor())) {
    const std::string name = path.empty() ? f->name() : path + "." + f->name();
    const config::Rule rule = rule_within(above, f);
    if (f->message_type() && !f->is_repeated() && r->HasField(from, f) && r->HasField(to, f)) {
      compare(r->GetMessage(from, f), r->GetMessage(to, f), name, rule, out);
      continue;
    }
    if (f->message_type() && f->is_repeated() && r->FieldSize(from, f) == r->FieldSize(to, f)) {
      for (int k = 0; k < r->FieldSize(from, f); ++k)
        compare(r->GetRepeatedMessage(from, f, k), r->GetRepeatedMessage(to, f, k),
                name + "." + std::to_string(k), rule, out);
      continue;
    }
    ConfigChange change{name, field_text(from, f), field_text(to, f)};
    if (change.from == change.to) continue;
    const bool switched = change.from == "0" || change.to == "0";
    change.breaks_resume =
        rule.on_resume() == config::KEPT || (rule.on_resume() == config::SWITCH && switched);
    change.of_inference = rule.of_inference();
    out.push_back(std::move(change));
  }
}

void add_inference_fields(const pb::Descriptor* type, const std::string& path,
                          std::vector<std::string>& out) {
  for (const pb::FieldDescriptor* f : fields_of(type)) {
    if (rule_of(f).of_inference())
      out.push_back(path + f->name());
    else if (f->message_type() && !f->is_repeated())
      add_inference_fields(f->message_type(), path + f->name() + ".", out);
  }
}

}  // namespace

std::string ConfigChange::to_string() const {
  return field + ": " + shortened(from, 200) + " -> " + shortened(to, 200);
}

std::vector<ConfigChange> config_changes(const Config& from, const Config& to) {
  std::vector<ConfigChange> out;
  compare(from, to, "", {}, out);
  return out;
}

std::string inference_fields() {
  std::vector<std::string> names;
  add_inference_fields(Config::descriptor(), "", names);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace saccade
