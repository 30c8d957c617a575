#include "train/export/postprocess.h"

#include <algorithm>

#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr int64_t kBestClasses = 5;  // as saccade predict shows them

// Columns of the logits that stand for a class.
int64_t class_columns(const Shape& logits, const ExportOptions& options) {
  const int64_t columns = logits[-1] - options.class_loss->extra_columns();
  return options.classes > 0 ? std::min(columns, options.classes) : columns;
}

// A softmax yields each query's best class, sigmoids every class of every query.
bool one_class_a_query(const ExportOptions& options) { return options.class_loss->extra_columns() > 0; }

std::string slice_last(OnnxGraph& g, const std::string& x, int64_t begin, int64_t end) {
  return g.node("Slice", {x, g.ints({begin}, "starts"), g.ints({end}, "ends"), g.ints({-1}, "axes")});
}

// (cx, cy, w, h) in [0, 1] -> (x1, y1, x2, y2) in pixels
std::string pixel_boxes(OnnxGraph& g, const std::string& boxes, const std::string& sizes) {
  const std::string centre = slice_last(g, boxes, 0, 2);
  const std::string half = g.node("Mul", {slice_last(g, boxes, 2, 4), g.scalar(0.5)});
  const std::string corners =
      g.node("Concat", {g.node("Sub", {centre, half}), g.node("Add", {centre, half})}, {{"axis", -1}});
  const std::string size = g.node("Cast", {sizes}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
  const std::string both = g.node("Concat", {size, size}, {{"axis", -1}});
  return g.node("Mul", {corners, g.node("Unsqueeze", {both, g.ints({1}, "axes")})});
}

}  // namespace

int64_t detections_of(const Shape& logits, const ExportOptions& options) {
  const int64_t candidates = logits[1] * (one_class_a_query(options) ? 1 : class_columns(logits, options));
  return std::min(options.max_detections, candidates);
}

int64_t best_classes_of(int64_t classes) { return std::min(classes, kBestClasses); }

std::map<std::string, std::string> lower_detections(OnnxGraph& g, const std::string& logits,
                                                    const std::string& boxes, const Shape& shape,
                                                    const ExportOptions& options, const std::string& sizes) {
  const int64_t classes = class_columns(shape, options), count = detections_of(shape, options);
  SACCADE_CHECK(classes > 0, "[export] {} columns of logits hold no class", shape[-1]);
  g.set_scope("postprocess");
  g.keep_f32(true);
  const bool single = one_class_a_query(options);
  const std::string k = g.ints({count}, "count");
  std::string candidates, query_labels;
  if (single) {
    const std::string probabilities = g.node("Softmax", {logits}, {{"axis", -1}});
    const std::string best = g.node("TopK", {slice_last(g, probabilities, 0, classes), g.ints({1}, "one")},
                                    {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
    candidates = g.node("Squeeze", {best, g.ints({-1}, "axes")});
    query_labels = g.node("Squeeze", {best + ":1", g.ints({-1}, "axes")});
  } else {
    const std::string of_classes = classes < shape[-1] ? slice_last(g, logits, 0, classes) : logits;
    candidates = g.node("Reshape", {of_classes, g.ints({0, -1})});
  }
  const std::string top = g.node("TopK", {candidates, k}, {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
  std::string scores = top, labels, query = top + ":1";
  if (single) {
    labels = g.node("GatherElements", {query_labels, query}, {{"axis", 1}});
  } else {
    // Without Mod, which older compilers lack for i64.
    scores = g.node("Sigmoid", {top});
    const std::string columns = g.ints({classes}, "classes"), index = query;
    query = g.node("Div", {index, columns});
    labels = g.node("Sub", {index, g.node("Mul", {query, columns})});
  }
  const std::string rows =
      g.node("Expand", {g.node("Unsqueeze", {query, g.ints({2}, "axes")}), g.ints({1, 1, 4})});
  const std::string chosen = g.node("GatherElements", {boxes, rows}, {{"axis", 1}});
  const std::string in_pixels = pixel_boxes(g, chosen, sizes);
  g.keep_f32(false);
  g.set_scope("");
  return {{"labels", labels}, {"boxes", in_pixels}, {"scores", scores}};
}

std::map<std::string, std::string> lower_best_classes(OnnxGraph& g, const std::string& logits,
                                                      int64_t classes) {
  g.set_scope("postprocess");
  g.keep_f32(true);
  const std::string best =
      g.node("TopK", {g.node("Softmax", {logits}, {{"axis", -1}}), g.ints({best_classes_of(classes)})},
             {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
  g.keep_f32(false);
  g.set_scope("");
  return {{"labels", best + ":1"}, {"scores", best}};
}

}  // namespace saccade
