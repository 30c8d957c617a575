#include "core/formats/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/formats/json_syntax.h"

namespace saccade {

namespace {

// Puts spaces in the place of the numbers, so that all else stays where it is.
void empty_lists(char* text, size_t size, const std::string& key) {
  const std::string quoted = "\"" + key + "\"";
  auto skip_space = [&](size_t at) {
    while (at < size && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
    return at;
  };
  std::array<bool, 256> is_of_numbers{};
  for (char c : std::string_view("0123456789.,+-eE[] \t\n\r"))
    is_of_numbers[static_cast<unsigned char>(c)] = true;
  const char* end = text + size;
  for (const char* found = text;
       (found = static_cast<const char*>(
            ::memmem(found, static_cast<size_t>(end - found), quoted.data(), quoted.size()))) != nullptr;) {
    const auto place = static_cast<size_t>(found - text);
    found += quoted.size();
    if (place > 0 && text[place - 1] == '\\') continue;  // inside of a string
    size_t at = skip_space(place + quoted.size());
    if (at == size || text[at] != ':') continue;
    at = skip_space(at + 1);
    if (at == size || text[at] != '[') continue;
    const size_t begin = at;
    int64_t depth = 0;
    for (; at < size && is_of_numbers[static_cast<unsigned char>(text[at])]; ++at) {
      depth += static_cast<int64_t>(text[at] == '[') - static_cast<int64_t>(text[at] == ']');
      if (depth == 0) break;
    }
    if (at == size || depth != 0 || check_json({text + begin, at + 1 - begin}).what != nullptr) continue;
    for (size_t i = begin + 1; i < at; ++i)
      if (text[i] != '\n') text[i] = ' ';
    found = text + at;
  }
}

}  // namespace

JsonFile::JsonFile(const std::string& path, std::string_view skipped) : path_(path) {
  read_file(path, kJsonFile, [this](uint64_t size) {
    text_ = simdjson::padded_string(size);
    return text_.data();
  });
  if (text_.size() == 0) fail_input("{}: the file is empty, expected JSON", path);
  if (!skipped.empty()) empty_lists(text_.data(), text_.size(), std::string(skipped));
  // Some editors put a byte-order mark first, which JSON proper does not know.
  size_t mark = std::string_view(text_).substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  simdjson::padded_string_view view(text_.data() + mark, text_.size() - mark,
                                    text_.size() - mark + simdjson::SIMDJSON_PADDING);
  auto error = parser_.iterate(view).get(document_);
  if (error == simdjson::MEMALLOC)
    throw OutOfMemory(fmt::format("{}: there is not enough memory to read it", path));
  if (error != simdjson::SUCCESS) fail_input("{}: not valid JSON: {}", path, simdjson::error_message(error));
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
    // The parser would take a scalar before a colon for a key, and pass over all up to the next brace.
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
  if (!found(value.get_string().get(view) == simdjson::SUCCESS)) return false;
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
