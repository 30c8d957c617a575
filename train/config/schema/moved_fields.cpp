#include "train/config/schema/moved_fields.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"
#include "train/config/text.h"

namespace saccade {

namespace {

struct FieldPlace {
  pb::Message* message;
  const pb::FieldDescriptor* field;
};

// Collects where old names are set, in the message at `path` and below.
void collect(pb::Message& m, const std::string& path, std::vector<std::pair<std::string, FieldPlace>>& out) {
  std::vector<const pb::FieldDescriptor*> fields;
  m.GetReflection()->ListFields(m, &fields);
  for (const pb::FieldDescriptor* f : fields) {
    if (rule_of(f).has_moved_to())
      out.emplace_back(path + f->name(), FieldPlace{&m, f});
    else if (f->message_type() && !f->is_repeated())
      collect(*m.GetReflection()->MutableMessage(&m, f), path + f->name() + ".", out);
  }
}

FieldPlace place_of(Config& config, const std::string& path) {
  FieldPlace place{&config, nullptr};
  for (const std::string& name : split(path, '.')) {
    if (place.field)
      place.message = place.message->GetReflection()->MutableMessage(place.message, place.field);
    place.field = place.message->GetDescriptor()->FindFieldByName(name);
    SACCADE_CHECK(place.field != nullptr, "[config] moved_to: no field \"{}\"", path);
  }
  return place;
}

void move(const FieldPlace& from, const FieldPlace& to) {
  const pb::Reflection* r = from.message->GetReflection();
  if (from.field->message_type()) {
    to.message->GetReflection()
        ->MutableMessage(to.message, to.field)
        ->CopyFrom(r->GetMessage(*from.message, from.field));
  } else {
    const bool is_list = from.field->is_repeated();
    if (is_list) to.message->GetReflection()->ClearField(to.message, to.field);
    const int count = is_list ? r->FieldSize(*from.message, from.field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string text;
      pb::TextFormat::PrintFieldValueToString(*from.message, from.field, is_list ? i : -1, &text);
      parse_value(*to.message, to.field, text);
    }
  }
  r->ClearField(from.message, from.field);
}

}  // namespace

std::string path_of_today(const std::string& path) {
  const pb::Descriptor* type = Config::descriptor();
  size_t end = 0;
  while (type && end != std::string::npos) {
    const size_t begin = end == 0 ? 0 : end + 1;
    end = path.find('.', begin);
    const pb::FieldDescriptor* f = type->FindFieldByName(path.substr(begin, end - begin));
    if (!f) break;
    if (const config::Rule& rule = rule_of(f); rule.has_moved_to())
      return rule.moved_to() + (end == std::string::npos ? "" : path.substr(end));
    type = f->is_repeated() ? nullptr : f->message_type();
  }
  return path;
}

void move_fields(Config& config, const std::string& file, std::vector<std::string>* notes) {
  std::vector<std::pair<std::string, FieldPlace>> moved;
  collect(config, "", moved);
  std::vector<std::string> names;
  for (const auto& [old_path, from] : moved) {
    const std::string& path = rule_of(from.field).moved_to();
    const FieldPlace to = place_of(config, path);
    const pb::Reflection* r = to.message->GetReflection();
    const bool is_set = to.field->is_repeated() ? r->FieldSize(*to.message, to.field) > 0
                                                : r->HasField(*to.message, to.field);
    if (!file.empty() && is_set)
      fail_input("{}: {} is the old name of {}; they cannot be combined", file, old_path, path);
    move(from, to);
    names.push_back(fmt::format("{} is now {}", old_path, path));
  }
  if (!notes || names.empty()) return;
  notes->push_back(fmt::format("note: {}: {}", file, some_of(names, 3)));
}

}  // namespace saccade
