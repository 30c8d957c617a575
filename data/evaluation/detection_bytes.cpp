// Detections as bytes, in which processes exchange them.
#include <cstring>

#include "core/tensor/error.h"
#include "data/evaluation/detections.h"

namespace saccade {

namespace {

// The fixed part of each detection, before the text of its mask.
struct Head {
  int64_t image_id, category_id;
  std::array<double, 4> bbox;
  double score;
  uint8_t has_mask, has_mask_area;
  uint8_t unused[6];
  int64_t height, width;  // of the mask
  uint64_t length;        // of its text
};

}  // namespace

std::string to_bytes(std::span<const Detection> detections) {
  std::string bytes;
  for (const Detection& d : detections) {
    const std::string text = d.mask ? d.mask->text() : "";
    const ImageSize size = d.mask ? d.mask->size() : ImageSize{};
    const Head head{.image_id = d.image_id,
                    .category_id = d.category_id,
                    .bbox = d.bbox,
                    .score = d.score,
                    .has_mask = d.mask != nullptr,
                    .has_mask_area = d.has_mask_area,
                    .unused = {},
                    .height = size.height,
                    .width = size.width,
                    .length = text.size()};
    bytes.append(reinterpret_cast<const char*>(&head), sizeof(head));
    bytes += text;
  }
  return bytes;
}

std::vector<Detection> detections_of(std::string_view bytes) {
  std::vector<Detection> detections;
  while (!bytes.empty()) {
    Head head;
    SACCADE_CHECK(bytes.size() >= sizeof(head), "[detections] {} bytes, expected a detection", bytes.size());
    std::memcpy(&head, bytes.data(), sizeof(head));
    bytes.remove_prefix(sizeof(head));
    SACCADE_CHECK(bytes.size() >= head.length, "[detections] {} bytes, expected a mask of {}", bytes.size(),
                  head.length);
    Detection& d = detections.emplace_back(Detection{.image_id = head.image_id,
                                                     .category_id = head.category_id,
                                                     .bbox = head.bbox,
                                                     .score = head.score,
                                                     .has_mask_area = head.has_mask_area != 0});
    if (head.has_mask != 0)
      d.mask = std::make_shared<const Mask>(
          Mask::from_text({head.height, head.width}, bytes.substr(0, head.length)));
    bytes.remove_prefix(head.length);
  }
  return detections;
}

}  // namespace saccade
