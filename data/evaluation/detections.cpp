#include "data/evaluation/detections.h"

#include <fmt/format.h>

#include <cmath>

#include "core/formats/output_file.h"
#include "data/formats/json_record.h"

namespace saccade {
namespace {

// Also takes 42.0, which writers that pass ids through floating arrays leave behind.
template <auto kId>
bool read_id(JsonFile& json, JsonValue value, Detection& d) {
  if (json.read(value, d.*kId)) return true;
  double number = 0;
  if (!json.read(value, number) || number != std::floor(number) || std::abs(number) > 0x1p53) return false;
  d.*kId = static_cast<int64_t>(number);
  return true;
}

constexpr JsonField<Detection> kFields[] = {{"image_id", "an integer", read_id<&Detection::image_id>},
                                            {"category_id", "an integer", read_id<&Detection::category_id>},
                                            {"bbox", kBoxForm, read_bbox},
                                            {"score", "a finite number", read_member<&Detection::score>}};

}  // namespace

std::vector<Detection> read_detections(const std::string& path) {
  JsonFile json(path);
  std::vector<Detection> detections;
  json.root_elements([&](JsonValue entry) {
    Detection d;
    JsonOutcome outcome = read_record(json, entry, kFields, d);
    if (!outcome.problem.empty())
      fail_input("{}: entry {}: {}", path, detections.size() + 1, outcome.problem);
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
