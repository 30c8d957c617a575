#include "core/formats/json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace saccade {

JsonFile::JsonFile(const std::string& path) : path_(path) {
  std::error_code system_error;
  if (std::filesystem::is_directory(path, system_error))
    fail_input("{}: is a folder, expected a JSON file", path);
  if (simdjson::padded_string::load(path).get(text_) != simdjson::SUCCESS) {
    fail_input("{}: cannot read the file", path);
  }
  if (text_.size() == 0) fail_input("{}: the file is empty, expected JSON", path);
  // Some editors put a byte-order mark first, which JSON proper does not know.
  size_t mark = std::string_view(text_).substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  simdjson::padded_string_view view(text_.data() + mark, text_.size() - mark,
                                    text_.size() - mark + simdjson::SIMDJSON_PADDING);
  auto error = parser_.iterate(view).get(document_);
  if (error != simdjson::SUCCESS) fail_input("{}: not valid JSON: {}", path, simdjson::error_message(error));
}

void JsonFile::fail_here(std::string_view what) {
  const char* at = nullptr;
  const char* begin = text_.data();
  const char* end = begin + text_.size();
  if (document_.current_location().get(at) != simdjson::SUCCESS || at < begin || at > end) at = end;
  fail_input("{}: line {}, byte {}: {}", path_, 1 + std::count(begin, at, '\n'), at - begin, what);
}

bool JsonFile::read(JsonValue value, double& out) {
  return value.get_double().get(out) == simdjson::SUCCESS && std::isfinite(out);
}

bool JsonFile::read(JsonValue value, std::string& out) {
  std::string_view view;
  if (value.get_string().get(view) != simdjson::SUCCESS) return false;
  out = view;
  return true;
}

void JsonFile::finish() {
  // The location of a document that was read to its end is out of bounds.
  if (document_.current_location().error() != simdjson::OUT_OF_BOUNDS)
    fail_here("unexpected text after the end of the JSON document");
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace saccade
