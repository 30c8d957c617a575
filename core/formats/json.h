// Reads large JSON files front to back (simdjson's on-demand parser): nothing is built in memory, and values
// that nobody reads are only checked for correct grammar. A syntax error throws InputError naming the file,
// the line and the byte.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor/error.h"

namespace saccade {

using JsonValue = simdjson::ondemand::value;

// A file in memory and the cursor in it. Values must be visited in file order and only once.
class JsonFile {
 public:
  // Throws InputError if the file is missing, unreadable, empty or no JSON in UTF-8.
  explicit JsonFile(const std::string& path);
  JsonFile& operator=(JsonFile&&) = delete;

  const std::string& path() const { return path_; }
  size_t size() const { return text_.size(); }
  // Throws "path: line L, byte B: what" for the cursor's position.
  [[noreturn]] void fail_here(std::string_view what);

  // Judges by the first character of the text.
  bool root_is_object() const;
  // Calls f(key, value) for every field of the root object, then checks that nothing follows it.
  template <class F>
  void root_fields(F&& f) {
    simdjson::ondemand::object object;
    check(document_.get_object().get(object), "the file must hold one JSON object and nothing else");
    each_field(object, f);
    finish();
  }
  // Calls f(value) for every element of the root array (the form of COCO result lists).
  template <class F>
  void root_elements(F&& f) {
    simdjson::ondemand::array array;
    check(document_.get_array().get(array), "the file must hold one JSON array and nothing else");
    each_element(array, f);
    finish();
  }
  // The same inside a value. Returns false, without consuming the value, if it is not an object (array).
  template <class F>
  bool fields(JsonValue value, F&& f) {
    simdjson::ondemand::object object;
    if (!is_type(value, simdjson::ondemand::json_type::object)) return false;
    check(value.get_object().get(object), "");
    each_field(object, f);
    return true;
  }
  template <class F>
  bool elements(JsonValue value, F&& f) {
    simdjson::ondemand::array array;
    if (!is_type(value, simdjson::ondemand::json_type::array)) return false;
    check(value.get_array().get(array), "");
    each_element(array, f);
    return true;
  }

  // Returns false if the value's type differs or it does not fit; syntax errors surface when the cursor
  // moves.
  bool read(JsonValue value, int64_t& out) { return found(value.get_int64().get(out) == simdjson::SUCCESS); }
  bool read(JsonValue value, double& out);  // finite numbers only
  bool read(JsonValue value, std::string& out);
  // Does not consume the value.
  bool is_null(JsonValue value) { return is_type(value, simdjson::ondemand::json_type::null); }
  bool read(JsonValue value, bool& out) { return found(value.get_bool().get(out) == simdjson::SUCCESS); }
  // Whether the value that was read last is a string with an invalid escape, such as half a surrogate pair.
  bool has_bad_escape() const { return bad_escape_; }

 private:
  template <class F>
  void each_field(simdjson::ondemand::object& object, F& f) {
    for (auto result : object) {
      simdjson::ondemand::field field;
      check(std::move(result).get(field), "");
      std::string_view key;
      check(field.unescaped_key().get(key), "");
      const int32_t depth = begin_value();
      f(key, field.value());
      if (is_unread(depth)) check_unread(field.value());
    }
  }
  template <class F>
  void each_element(simdjson::ondemand::array& array, F& f) {
    for (auto result : array) {
      JsonValue value;
      check(std::move(result).get(value), "");
      const int32_t depth = begin_value();
      f(value);
      if (is_unread(depth)) check_unread(value);
    }
  }
  static bool is_type(JsonValue& value, simdjson::ondemand::json_type type) {
    simdjson::ondemand::json_type actual;
    return value.type().get(actual) == simdjson::SUCCESS && actual == type;
  }
  // `what` says what was expected; if it is empty, the text is no JSON.
  void check(simdjson::error_code error, std::string_view what) {
    if (error == simdjson::INCOMPLETE_ARRAY_OR_OBJECT) [[unlikely]] {
      fail_at(
          text_.data() + text_.size(),
          "the file must hold one JSON value and nothing else, but does not end with its last bracket (is it cut off?)");
    }
    if (error != simdjson::SUCCESS) [[unlikely]] {
      if (what.empty()) fail_refused();
      fail_here(what);
    }
  }
  // A value at which the cursor still stands was skipped, or did not have the requested type; the caller that
  // requested it reports the latter.
  int32_t begin_value() {
    wrong_type_ = bad_escape_ = false;
    return document_.current_depth();
  }
  bool is_unread(int32_t depth) const { return document_.current_depth() >= depth && !wrong_type_; }
  bool found(bool ok) {
    wrong_type_ = !ok;
    return ok;
  }
  void check_unread(JsonValue value);
  [[noreturn]] void fail_at(const char* place, std::string_view what);
  // Says where the text is no JSON, in our words.
  [[noreturn]] void fail_refused();
  void finish();

  std::string path_;
  simdjson::padded_string text_;
  simdjson::ondemand::parser parser_;
  simdjson::ondemand::document document_;
  bool wrong_type_ = false, bad_escape_ = false;  // of the last value that was read
};

// Returns the text as a JSON string with quotes. Bytes that are not UTF-8, which JSON cannot hold, become
// U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace saccade
