// Writes the schema as the tables of configs/README.md.
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "configs/saccade.pb.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"

namespace saccade {

using pb::FieldDescriptor;

namespace {

struct Section {
  const pb::Descriptor* type;
  std::vector<std::string> paths;  // of the fields that have this type
};

const config::About& about(const pb::Descriptor* type) { return type->options().GetExtension(config::about); }

// Collects the messages from the root down, each once, at its first field; those with a title last.
void collect(const pb::Descriptor* type, const std::string& path, std::vector<Section>& out) {
  auto known = std::find_if(out.begin(), out.end(), [&](const Section& s) { return s.type == type; });
  if (known != out.end()) return known->paths.push_back(path);
  out.push_back({type, {path}});
  for (const FieldDescriptor* f : fields_of(type))
    if (f->message_type()) collect(f->message_type(), path.empty() ? f->name() : path + "." + f->name(), out);
}

std::string type_text(const FieldDescriptor* f) {
  std::string type;
  if (f->enum_type()) {
    for (int i = 0; i < f->enum_type()->value_count(); ++i)
      type += (i ? " \\| " : "") + f->enum_type()->value(i)->name();
  } else if (f->message_type()) {
    type = f->message_type()->name();
  } else {
    type = f->cpp_type_name();
    if (is_number(f)) type = type == "double" ? "float" : "int";
  }
  return f->is_repeated() ? "list of " + type : type;
}

}  // namespace

std::string config_tables() {
  std::vector<Section> sections;
  collect(config::Config::descriptor(), "", sections);
  std::stable_partition(sections.begin() + 1, sections.end(),
                        [](const Section& s) { return about(s.type).title().empty(); });
  std::string out;
  for (const auto& [type, paths] : sections) {
    const config::About& a = about(type);
    out +=
        fmt::format("\n## {}\n\n", a.title().empty() ? fmt::format("{}", fmt::join(paths, ", ")) : a.title());
    if (!a.text().empty()) out += a.text() + "\n\n";
    out += "| field | type | default | allowed | |\n| --- | --- | --- | --- | --- |\n";
    for (const FieldDescriptor* f : fields_of(type)) {
      const std::string otherwise = f->has_default_value() ? "`" + default_text(f) + "`" : "";
      out += fmt::format("| `{}` | {} | {} | {} | {} |\n", f->name(), type_text(f), otherwise,
                         allowed_text(f), rule_of(f).text());
    }
  }
  return out;
}

}  // namespace saccade
