// What exported models do with raw predictions on request.
#pragma once

#include <map>
#include <string>

#include "train/export/export.h"
#include "train/export/graph.h"

namespace saccade {

// Of a detector's logits [N, Q, columns] and boxes [N, Q, 4]: `labels` i64, `boxes` (x1, y1, x2, y2) in pixels of the images whose
// sizes are in the input orig_target_sizes i64 [N, 2] (width, height), and `scores`, [N, K, ..] each by falling score, as
// models/detection/postprocess.h.
std::map<std::string, std::string> lower_detections(OnnxGraph& graph, const std::string& logits,
                                                    const std::string& boxes, const Shape& shape,
                                                    const ExportOptions& options, const std::string& sizes);
// Of a classifier's logits [N, K]: the five best `labels` and their softmax `scores`.
std::map<std::string, std::string> lower_best_classes(OnnxGraph& graph, const std::string& logits,
                                                      int64_t classes);
int64_t detections_of(const Shape& logits, const ExportOptions& options);  // how many an image has
int64_t best_classes_of(int64_t classes);

}  // namespace saccade
