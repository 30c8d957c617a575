#include "core/formats/json.h"

#include <algorithm>
#include <cmath>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/formats/json_syntax.h"

namespace saccade {

JsonFile::JsonFile(const std::string& path) : path_(path) {
  read_file(path, kJsonFile, [this](uint64_t size) {
    text_ = simdjson::padded_string(size);
    return text_.data();
  });
  if (text_.size() == 0) fail_input("{}: the file is empty, expected JSON", path);
  check_encoding(path, text_);
  // Some editors put a byte-order mark first, which JSON does not allow.
  size_t mark = std::string_view(text_).substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  simdjson::padded_string_view view(text_.data() + mark, text_.size() - mark,
                                    text_.size() - mark + simdjson::SIMDJSON_PADDING);
  auto error = parser_.iterate(view).get(document_);
  if (error == simdjson::MEMALLOC)
    throw OutOfMemory(fmt::format("{}: there is not enough memory to read it", path));
  if (error == simdjson::EMPTY) fail_input("{}: the file is empty, expected JSON", path);
  if (error != simdjson::SUCCESS) fail_refused();
}

bool JsonFile::root_is_object() const {
  const std::string_view text(text_);
  const size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0,
               first = text.find_first_not_of(" \t\n\r", begin);
  return first != text.npos && text[first] == '{';
}

void JsonFile::fail_at(const char* place, std::string_view what) {
  const char* begin = text_.data();
  fail_input("{}: line {}, byte {}: {}", path_, 1 + std::count(begin, place, '\n'), place - begin, what);
}

void JsonFile::fail_here(std::string_view what) {
  const char* at = nullptr;
  const char* begin = text_.data();
  const char* end = begin + text_.size();
  if (document_.current_location().get(at) != simdjson::SUCCESS || at < begin || at > end) at = end;
  fail_at(at, what);
}

void JsonFile::fail_refused() {
  const std::string_view text(text_);
  const size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  if (const JsonFault fault = fault_of_json(text.substr(begin)); fault.what != nullptr)
    fail_at(text_.data() + begin + fault.at, fault.what);
  fail_here("not valid JSON");
}

void JsonFile::check_unread(JsonValue value) {
  using simdjson::ondemand::json_type;
  std::string_view text;
  if (is_type(value, json_type::object)) {
    simdjson::ondemand::object object;
    check(value.get_object().get(object), "");
    check(object.raw_json().get(text), "");
  } else if (is_type(value, json_type::array)) {
    simdjson::ondemand::array array;
    check(value.get_array().get(array), "");
    check(array.raw_json().get(text), "");
  } else {
    text = value.raw_json_token();
    // The parser would take a scalar before a colon for a key and skip everything up to the next brace.
    const char* next = text.data() + text.size();
    if (next < text_.data() + text_.size() && *next == ':')
      fail_at(next, "expected \",\" or a closing bracket after a value");
  }
  if (const JsonFault fault = check_json(text); fault.what != nullptr)
    fail_at(text.data() + fault.at, fault.what);
}

bool JsonFile::read(JsonValue value, double& out) {
  return found(value.get_double().get(out) == simdjson::SUCCESS && std::isfinite(out));
}

bool JsonFile::read(JsonValue value, std::string& out) {
  std::string_view view;
  const simdjson::error_code error = value.get_string().get(view);
  bad_escape_ = error == simdjson::STRING_ERROR;
  if (!found(error == simdjson::SUCCESS)) return false;
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
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    std::string_view character = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(character.size());
    if (character == "\"" || character == "\\") out += '\\';
    if (length == 0)
      out += "\\ufffd";
    else if (auto byte = static_cast<unsigned char>(character[0]); byte < 0x20)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += character;
  }
  return out + '"';
}

}  // namespace saccade
