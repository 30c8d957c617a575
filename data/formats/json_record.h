// Reads objects in JSON lists whose fields are described by a table.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/formats/json.h"

namespace saccade {

template <class T>
struct JsonField {
  std::string_view name;
  const char* expected;  // "an integer", for messages
  // Returns false if the value has another form.
  bool (*read)(JsonFile& json, JsonValue value, T& record);
  bool required = true;
};

inline constexpr const char* kNoObject = "must be an object";

struct JsonOutcome {
  std::string problem;     // "field "id" is missing"; empty if there is none
  bool has_first = false;  // whether the table's first field was read
};

// Reads one object. The outcome is its first problem, in the order of the file, then of the table: a field of
// another form, repeated, or missing. Fields that are not in the table are skipped.
template <class T, size_t N>
JsonOutcome read_record(JsonFile& json, JsonValue value, const JsonField<T> (&fields)[N], T& record) {
  JsonOutcome out;
  std::array<bool, N> seen{};
  size_t next = 0;  // most files have the fields in the order of the table
  bool is_object = json.fields(value, [&](std::string_view key, JsonValue v) {
    for (size_t k = 0; k < N; ++k) {
      const size_t i = (next + k) % N;
      if (key != fields[i].name) continue;
      next = i + 1;
      if (seen[i] && out.problem.empty()) out.problem = fmt::format("field \"{}\" appears twice", key);
      seen[i] = true;
      bool ok = fields[i].read(json, v, record);
      if (!ok && out.problem.empty())
        out.problem = json.has_bad_escape()
                          ? fmt::format("field \"{}\" has an invalid escape in its string", key)
                          : fmt::format("field \"{}\" must be {}", key, fields[i].expected);
      if (i == 0) out.has_first = ok;
      return;
    }
  });
  if (!is_object) return {kNoObject};
  for (size_t i = 0; i < N; ++i)
    if (fields[i].required && !seen[i] && out.problem.empty())
      out.problem = fmt::format("field \"{}\" is missing", fields[i].name);
  return out;
}

// Readers for the table: one for any member, one for the member `bbox`.
template <auto kMember, class T>
bool read_member(JsonFile& json, JsonValue value, T& record) {
  return json.read(value, record.*kMember);
}
// Also accepts 42.0, as written by programs that pass ids through floating-point arrays.
inline bool read_integer(JsonFile& json, JsonValue value, int64_t& id) {
  if (json.read(value, id)) return true;
  double number = 0;
  if (!json.read(value, number) || number != std::floor(number) || std::abs(number) > 0x1p53) return false;
  id = static_cast<int64_t>(number);
  return true;
}
inline constexpr const char* kBoxForm = "four finite numbers [x, y, width, height]";
template <class T>
bool read_bbox(JsonFile& json, JsonValue value, T& record) {
  size_t count = 0;
  bool ok = true;
  bool is_array = json.elements(value, [&](JsonValue v) {
    double number = 0;
    ok = json.read(v, number) && ok;
    if (count < 4) record.bbox[count] = number;
    ++count;
  });
  return is_array && ok && count == 4;
}

}  // namespace saccade
