#include "models/weights/model_json.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "core/formats/json.h"

namespace saccade {
namespace {

void read_field(JsonFile& json, const std::string& key, JsonValue value, ModelJson& out) {
  simdjson::ondemand::json_type type;
  if (value.type().get(type) != simdjson::SUCCESS) return;
  if (type == simdjson::ondemand::json_type::string) {
    if (std::string text; json.read(value, text)) out.values[key] = text;
  } else if (type == simdjson::ondemand::json_type::boolean) {
    if (bool truth = false; json.read(value, truth)) out.values[key] = truth;
  } else if (type == simdjson::ondemand::json_type::number) {
    int64_t whole = 0;
    double number = 0;
    if (json.read(value, whole))
      out.values[key] = whole;
    else if (json.read(value, number))
      out.values[key] = number;
  } else if (type == simdjson::ondemand::json_type::array) {
    std::vector<int64_t> list;
    bool is_whole = true;
    json.elements(value, [&](JsonValue item) {
      int64_t number = 0;
      is_whole = json.read(item, number) && is_whole;
      list.push_back(number);
    });
    if (is_whole) out.lists[key] = list;
  }
}

}  // namespace

ModelJson read_model_json(const std::string& weights) {
  const std::string path = (std::filesystem::path(weights).parent_path() / "config.json").string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  ModelJson out;
  std::map<int64_t, std::string> labels;
  JsonFile json(path);
  json.root_fields([&](std::string_view name, JsonValue value) {
    if (name == "backbone_config")
      json.fields(value, [&](std::string_view inner, JsonValue field) {
        read_field(json, fmt::format("{}.{}", name, inner), field, out);
      });
    else if (name == "id2label")
      json.fields(value, [&](std::string_view id, JsonValue label) {
        int64_t number = -1;
        std::string text;
        const char* end = id.data() + id.size();
        const bool is_number = std::from_chars(id.data(), end, number).ptr == end;
        if (json.read(label, text) && is_number) labels[number] = text;
      });
    else
      read_field(json, std::string(name), value, out);
  });
  if (!out.values.contains("model_type")) return {};
  out.path = path;
  // Accepts ids 0, 1, 2 ... with names that somebody has given; "LABEL_0" is a placeholder.
  int64_t next = 0;
  for (const auto& [id, label] : labels)
    if (id == next++ && label != "LABEL_" + std::to_string(id)) out.labels.push_back(label);
  if (out.labels.size() != labels.size()) out.labels.clear();
  return out;
}

}  // namespace saccade
