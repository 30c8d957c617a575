#include "data/formats/coco/segmentation_json.h"

#include <fmt/ranges.h>

#include "data/formats/json_record.h"

namespace saccade {
namespace {

struct Runs {
  std::vector<int64_t> size, counts;
  std::string text;
  bool is_text = false;
};

bool read_integers(JsonFile& json, JsonValue value, std::vector<int64_t>& out) {
  bool ok = true;
  const bool is_list = json.elements(value, [&](JsonValue v) {
    int64_t number = 0;
    ok = json.read(v, number) && ok;
    out.push_back(number);
  });
  return is_list && ok;
}

constexpr JsonField<Runs> kRunFields[] = {
    {"size", "two integers [height, width]",
     [](JsonFile& json, JsonValue v, Runs& runs) {
       return read_integers(json, v, runs.size) && runs.size.size() == 2;
     }},
    {"counts", "a list of integers or a compressed string", [](JsonFile& json, JsonValue v, Runs& runs) {
       runs.is_text = json.read(v, runs.text);
       return runs.is_text || read_integers(json, v, runs.counts);
     }}};

// Returns whether it is a list.
bool read_polygons(JsonFile& json, JsonValue value, Segmentation& out, std::string& fault) {
  return json.elements(value, [&](JsonValue polygon) {
    std::vector<double>& points = out.polygons.emplace_back();
    bool ok = true;
    const bool is_list = json.elements(polygon, [&](JsonValue v) {
      double number = 0;
      ok = json.read(v, number) && ok;
      points.push_back(number);
    });
    if (fault.empty() && !(is_list && ok))
      fault =
          fmt::format("mask: polygon {} must be a list of finite numbers [x, y, ...]", out.polygons.size());
  });
}

}  // namespace

std::shared_ptr<const Segmentation> read_segmentation(JsonFile& json, JsonValue value, std::string& fault) {
  if (json.is_null(value)) return nullptr;
  Segmentation out;
  if (read_polygons(json, value, out, fault)) {
    if (!fault.empty() || out.polygons.empty()) return nullptr;
    return std::make_shared<const Segmentation>(std::move(out));
  }
  Runs runs;
  const JsonOutcome outcome = read_record(json, value, kRunFields, runs);
  if (!outcome.problem.empty()) {
    fault = "mask: " + (outcome.problem == kNoObject
                            ? "must be a list of polygons or an object with \"size\" and \"counts\""
                            : outcome.problem);
    return nullptr;
  }
  try {
    const ImageSize size{runs.size[0], runs.size[1]};
    out.runs = runs.is_text ? Mask::from_text(size, runs.text) : Mask::from_counts(size, runs.counts);
  } catch (const InputError& e) {
    fault = e.what();
    return nullptr;
  }
  return std::make_shared<const Segmentation>(std::move(out));
}

std::string segmentation_json(const Segmentation& segmentation) {
  if (segmentation.polygons.empty()) {
    const ImageSize size = segmentation.runs.size();
    return fmt::format("{{\"size\":[{},{}],\"counts\":{}}}", size.height, size.width,
                       json_quote(segmentation.runs.text()));
  }
  std::string out = "[";
  for (const std::vector<double>& polygon : segmentation.polygons)
    out += fmt::format("{}[{}]", out.size() > 1 ? "," : "", fmt::join(polygon, ","));
  return out + "]";
}

}  // namespace saccade
