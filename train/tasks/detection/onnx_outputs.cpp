// The outputs of an exported detector.
#include <fmt/format.h>

#include <algorithm>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "models/build.h"
#include "models/detection/class_loss.h"
#include "models/detector.h"
#include "train/config/options.h"
#include "train/tasks/onnx_outputs.h"

namespace saccade {
namespace {

// `logits` [N, Q, K] and `boxes` [N, Q, 4] of the last layer as (cx, cy, w, h), relative to the image. With
// postprocess: `labels` i64, `boxes` (x1, y1, x2, y2) in pixels of the images whose sizes are in the
// additional input orig_target_sizes i64 [N, 2] (width, height), and `scores`, each [N, count, ..] by falling
// score, as in models/detection/postprocess.h; the raw boxes are then `raw_boxes`. For a dense detector,
// detections that overlap a better one of their class are left out, and scores of 0 fill the rest. For a
// model with masks: `masks` [N, Q, h, w], with postprocess [N, count, h, w] (the raw ones are then
// `raw_masks`): logits of maps that cover the padded image.
// A model that finishes its detections itself (ResultForm) has only these: `labels`, `boxes` as corners
// relative to the image or with postprocess as above, `scores`, and `masks` [N, count, h, w], probabilities
// of maps that cover the boxes.
class DetectorOutputs : public ModelOutputs {
 public:
  // class_loss: how scores follow from logits; nms: eval.nms. The file suppresses duplicates of dense
  // detectors; for others that is left to the reader of the file.
  DetectorOutputs(const OutputChoice& choice, std::shared_ptr<const ClassLoss> class_loss,
                  int64_t max_detections, double nms, const ResultForm& form, bool masks)
      : choice_(choice),
        class_loss_(std::move(class_loss)),
        max_detections_(max_detections),
        nms_(nms),
        form_(form),
        masks_(masks) {}
  std::vector<std::pair<std::string, Tensor>> run(Module& model, const Tensor& images) const override;
  void lower(OutputWriter& writer, const std::vector<Raw>& raw) const override;
  std::vector<std::pair<std::string, std::string>> metadata() const override;
  std::string note() const override;

 private:
  // A softmax gives each query's best class, sigmoids give every class of every query.
  bool one_class_a_query() const { return class_loss_->extra_columns() > 0; }
  int64_t class_columns(const Shape& logits) const;  // columns that stand for a class
  int64_t count_of(const Shape& logits) const;       // detections per image
  bool suppresses() const { return nms_ < 1 && form_.least_score.has_value(); }
  void lower_detections(OutputWriter& writer, const std::vector<Raw>& raw) const;
  void lower_finished(OutputWriter& writer, const std::vector<Raw>& raw) const;

  OutputChoice choice_;
  std::shared_ptr<const ClassLoss> class_loss_;
  int64_t max_detections_;
  double nms_;
  ResultForm form_;
  bool masks_;
};

std::string slice_last(OnnxGraph& g, const std::string& x, int64_t begin, int64_t end) {
  return g.node("Slice", {x, g.ints({begin}, "starts"), g.ints({end}, "ends"), g.ints({-1}, "axes")});
}

// Corners relative to the image -> in pixels
std::string pixel_corners(OnnxGraph& g, const std::string& corners, const std::string& sizes) {
  const std::string size = g.node("Cast", {sizes}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
  const std::string both = g.node("Concat", {size, size}, {{"axis", -1}});
  return g.node("Mul", {corners, g.node("Unsqueeze", {both, g.ints({1}, "axes")})});
}

// logits [N, Q, K] and boxes [N, Q, 4] as (cx, cy, w, h) -> scores [N, Q * K], 0 for those not kept
std::string suppressed(OnnxGraph& g, const std::string& logits, const std::string& boxes, int64_t most,
                       double nms, double least_score) {
  const OnnxAttributes swap{{"perm", std::vector<int64_t>{0, 2, 1}}};
  const std::string scores = g.node("Transpose", {g.node("Sigmoid", {logits})}, swap);
  const std::string kept = g.node(
      "NonMaxSuppression", {boxes, scores, g.ints({most}, "most"), g.scalar(nms), g.scalar(least_score)},
      {{"center_point_box", int64_t{1}}});
  const std::string none = g.node("Mul", {scores, g.scalar(0)});
  const std::string all = g.node("ScatterND", {none, kept, g.node("GatherND", {scores, kept})});
  return g.node("Reshape", {g.node("Transpose", {all}, swap), g.ints({0, -1})});
}

// (cx, cy, w, h) in [0, 1] -> (x1, y1, x2, y2) in pixels
std::string pixel_boxes(OnnxGraph& g, const std::string& boxes, const std::string& sizes) {
  const std::string centre = slice_last(g, boxes, 0, 2);
  const std::string half = g.node("Mul", {slice_last(g, boxes, 2, 4), g.scalar(0.5)});
  const std::string corners =
      g.node("Concat", {g.node("Sub", {centre, half}), g.node("Add", {centre, half})}, {{"axis", -1}});
  return pixel_corners(g, corners, sizes);
}

int64_t DetectorOutputs::class_columns(const Shape& logits) const {
  const int64_t columns = logits[-1] - class_loss_->extra_columns();
  return choice_.classes > 0 ? std::min(columns, choice_.classes) : columns;
}

int64_t DetectorOutputs::count_of(const Shape& logits) const {
  const int64_t candidates = logits[1] * (one_class_a_query() ? 1 : class_columns(logits));
  return std::min(max_detections_, candidates);
}

std::vector<std::pair<std::string, Tensor>> DetectorOutputs::run(Module& model, const Tensor& images) const {
  std::vector<std::pair<std::string, Tensor>> outputs;
  const auto output = call(model_as<Detector>(model), DetectorInput{.images = Var(images), .sizes = {}});
  for (const auto& [name, value] : output->results()) {
    const bool has_more = form_.finished && value.dim(1) > max_detections_;
    outputs.emplace_back(name, (has_more ? slice(value, 1, 0, max_detections_) : value).value());
  }
  return outputs;
}

void DetectorOutputs::lower_detections(OutputWriter& writer, const std::vector<Raw>& raw) const {
  OnnxGraph& g = writer.graph();
  const Raw &logits = raw.at(0), &boxes = raw.at(1);
  const int64_t classes = class_columns(logits.shape), count = count_of(logits.shape);
  SACCADE_CHECK(classes > 0, "[export] {} columns of logits hold no class", logits.shape[-1]);
  writer.input("orig_target_sizes", DType::kI64, {2});
  g.set_scope("postprocess");
  g.keep_f32(true);
  const bool single = one_class_a_query();
  const std::string k = g.ints({count}, "count");
  std::string candidates, query_labels;
  if (single) {
    const std::string probabilities = g.node("Softmax", {logits.name}, {{"axis", -1}});
    const std::string best = g.node("TopK", {slice_last(g, probabilities, 0, classes), g.ints({1}, "one")},
                                    {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
    candidates = g.node("Squeeze", {best, g.ints({-1}, "axes")});
    query_labels = g.node("Squeeze", {best + ":1", g.ints({-1}, "axes")});
  } else {
    const std::string of_classes =
        classes < logits.shape[-1] ? slice_last(g, logits.name, 0, classes) : logits.name;
    candidates = suppresses() ? suppressed(g, of_classes, boxes.name, count, nms_, *form_.least_score)
                              : g.node("Reshape", {of_classes, g.ints({0, -1})});
  }
  const std::string top = g.node("TopK", {candidates, k}, {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
  std::string scores = top, labels, query = top + ":1";
  if (single) {
    labels = g.node("GatherElements", {query_labels, query}, {{"axis", 1}});
  } else {
    // Without Mod, which older compilers lack for i64.
    if (!suppresses()) scores = g.node("Sigmoid", {top});
    const std::string columns = g.ints({classes}, "classes"), index = query;
    query = g.node("Div", {index, columns});
    labels = g.node("Sub", {index, g.node("Mul", {query, columns})});
  }
  const std::string rows =
      g.node("Expand", {g.node("Unsqueeze", {query, g.ints({2}, "axes")}), g.ints({1, 1, 4})});
  const std::string chosen = g.node("GatherElements", {boxes.name, rows}, {{"axis", 1}});
  const std::string in_pixels = pixel_boxes(g, chosen, "orig_target_sizes");
  std::string masks;
  if (raw.size() > 2) {
    const std::string cells = g.node("Expand", {g.node("Unsqueeze", {query, g.ints({2, 3}, "axes")}),
                                                g.ints({1, 1, raw[2].shape[2], raw[2].shape[3]})});
    masks = g.node("GatherElements", {raw[2].name, cells}, {{"axis", 1}});
  }
  g.keep_f32(false);
  g.set_scope("");
  writer.output("labels", labels, DType::kI64, {count});
  writer.output("boxes", in_pixels, DType::kF32, {count, 4});
  writer.output("scores", scores, DType::kF32, {count});
  if (!masks.empty()) writer.output("masks", masks, DType::kF32, {count, raw[2].shape[2], raw[2].shape[3]});
}

void DetectorOutputs::lower_finished(OutputWriter& writer, const std::vector<Raw>& raw) const {
  OnnxGraph& g = writer.graph();
  const Raw &scores = raw.at(0), &boxes = raw.at(1), &labels = raw.at(2);
  const int64_t count = scores.shape[1];
  std::string corners = boxes.name;
  if (choice_.postprocess) {
    writer.input("orig_target_sizes", DType::kI64, {2});
    corners = pixel_corners(g, corners, "orig_target_sizes");
  }
  const std::string classes = g.node("Cast", {labels.name}, {{"to", int64_t{onnx::TensorProto::INT64}}});
  writer.output("labels", classes, DType::kI64, {count});
  writer.output("boxes", corners, DType::kF32, {count, 4});
  writer.output("scores", scores.name, DType::kF32, {count});
  if (raw.size() > 3) {
    const Shape& maps = raw[3].shape;
    writer.output("masks", raw[3].name, DType::kF32, {count, maps[2], maps[3]});
  }
}

void DetectorOutputs::lower(OutputWriter& writer, const std::vector<Raw>& raw) const {
  if (form_.finished) return lower_finished(writer, raw);
  const Raw &logits = raw.at(0), &boxes = raw.at(1);
  if (choice_.postprocess) lower_detections(writer, raw);
  if (choice_.postprocess && !choice_.raw_outputs) return;
  writer.output("logits", logits.name, DType::kF32, {logits.shape[1], logits.shape[2]});
  writer.output(choice_.postprocess ? "raw_boxes" : "boxes", boxes.name, DType::kF32, {logits.shape[1], 4});
  if (raw.size() > 2)
    writer.output(choice_.postprocess ? "raw_masks" : "masks", raw[2].name, DType::kF32,
                  {raw[2].shape[1], raw[2].shape[2], raw[2].shape[3]});
}

std::vector<std::pair<std::string, std::string>> DetectorOutputs::metadata() const {
  std::vector<std::pair<std::string, std::string>> entries{
      {"scores", one_class_a_query() ? "softmax" : "sigmoid"},
      {"boxes", choice_.postprocess
                    ? "x1, y1, x2, y2 in pixels of the sizes in orig_target_sizes (width, height)"
                : form_.finished ? "x1, y1, x2, y2 as fractions of the image"
                                 : "cx, cy, w, h as fractions of the image"}};
  if (masks_)
    entries.emplace_back("masks", form_.finished ? "probabilities of maps that cover the boxes"
                                                 : "logits of maps that cover the image");
  if (nms_ < 1 && !(suppresses() && choice_.postprocess))
    entries.emplace_back("nms", fmt::format("{}", nms_));
  return entries;
}

std::string DetectorOutputs::note() const {
  if (!(choice_.postprocess || form_.finished) || nms_ == 1 || suppresses()) return "";
  return fmt::format("eval.nms {}: left to the caller; the file's metadata has the value", nms_);
}

[[maybe_unused]] const bool detector_outputs_registered = onnx_outputs().add(
    {.name = "detection",
     .make = [](const Config& config, const OutputChoice& choice,
                const Module& model) -> std::shared_ptr<const ModelOutputs> {
       const ResultForm form = model_as<const Detector>(model).result_form();
       if (form.finished && choice.raw_outputs)
         fail_input(
             "--raw-outputs: a {} chooses its detections itself, so there are no raw outputs, with or without "
             "--postprocess",
             config.model().type());
       return std::make_shared<DetectorOutputs>(
           choice, class_losses().find(config::ClassLoss_Name(config.criterion().class_loss())).make({}),
           config.eval().max_detections(), config.eval().nms(), form, has_masks(config));
     }});

}  // namespace
}  // namespace saccade
