#include "data/evaluation/detections.h"

#include <fmt/format.h>

#include <cmath>

#include "core/formats/file.h"
#include "core/formats/json.h"

namespace saccade {
namespace {

enum Field : unsigned { kImage = 1, kCategory = 2, kBox = 4, kScore = 8, kAll = 15 };

// Also takes 42.0, which writers that pass ids through floating arrays leave behind.
bool read_id(JsonFile& json, JsonValue value, int64_t& id) {
  if (json.read(value, id)) return true;
  double number = 0;
  if (!json.read(value, number) || number != std::floor(number) || std::abs(number) > 0x1p53) return false;
  id = static_cast<int64_t>(number);
  return true;
}

}  // namespace

std::vector<Detection> read_detections(const std::string& path) {
  JsonFile json(path);
  std::vector<Detection> detections;
  json.root_elements([&](JsonValue entry) {
    Detection d;
    unsigned seen = 0;
    auto expect = [&](bool ok, const char* name, const char* what) {
      if (!ok) fail_input("{}: entry {}: \"{}\" must be {}", path, detections.size() + 1, name, what);
    };
    bool is_object = json.fields(entry, [&](std::string_view key, JsonValue value) {
      if (key == "image_id") {
        expect(read_id(json, value, d.image_id), "image_id", "an integer");
        seen |= kImage;
      } else if (key == "category_id") {
        expect(read_id(json, value, d.category_id), "category_id", "an integer");
        seen |= kCategory;
      } else if (key == "bbox") {
        size_t count = 0;
        bool ok = true;
        ok = json.elements(value, [&](JsonValue v) {
          double number = 0;
          ok = json.read(v, number) && ok;
          if (count < 4) d.bbox[count] = number;
          ++count;
        }) && ok;
        expect(ok && count == 4, "bbox", "four finite numbers [x, y, width, height]");
        seen |= kBox;
      } else if (key == "score") {
        expect(json.read(value, d.score), "score", "a finite number");
        seen |= kScore;
      }
    });
    if (!is_object) fail_input("{}: entry {}: must be an object", path, detections.size() + 1);
    if (seen != kAll) {
      const char* missing = !(seen & kImage)      ? "image_id"
                            : !(seen & kCategory) ? "category_id"
                            : !(seen & kBox)      ? "bbox"
                                                  : "score";
      fail_input("{}: entry {}: field \"{}\" is missing", path, detections.size() + 1, missing);
    }
    detections.push_back(d);
  });
  return detections;
}

void write_detections(const std::string& path, std::span<const Detection> detections) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  text.push_back('[');
  for (size_t i = 0; i < detections.size(); ++i) {
    const Detection& d = detections[i];
    SACCADE_CHECK(std::isfinite(d.score) && std::isfinite(d.bbox[0] + d.bbox[1] + d.bbox[2] + d.bbox[3]),
                  "[detections] entry {} of image {} is not finite", i, d.image_id);
    fmt::format_to(out, "{}{{\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"score\":{}}}",
                   i == 0 ? "" : ",\n", d.image_id, d.category_id, d.bbox[0], d.bbox[1], d.bbox[2], d.bbox[3],
                   d.score);
  }
  text.push_back(']');
  text.push_back('\n');
  write_file(path, std::string_view(text.data(), text.size()));
}

}  // namespace saccade
