// saccade eval and saccade predict with a detector: pictures with boxes, and the detections as a list.
#include <fmt/format.h>

#include <algorithm>

#include "core/formats/json.h"
#include "core/formats/output_file.h"
#include "core/formats/text.h"
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/images/draw.h"
#include "train/commands/task_commands.h"
#include "train/config/options.h"
#include "train/detection/evaluator.h"
#include "train/inference/model_input.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

Evaluation evaluate_detections(const EvalArguments& arguments, const LoadedModel& model,
                               const EvaluatorOptions& options) {
  if (arguments.annotations.empty())
    fail_input(
        "--annotations: not given, expected the COCO annotations that the detector {} is compared with",
        arguments.checkpoint);
  std::vector<std::string> notes;
  auto dataset =
      open_detection_dataset(eval_paths(arguments, model.config), LabelScheme::kContiguous, &notes);
  for (const std::string& note : notes) print_line(note);
  check_categories(*dataset, model.category_ids, model.class_names, arguments.checkpoint);
  std::vector<Detection> detections = detect(model.as<Detector>(), dataset, model.category_ids, options);
  if (!arguments.detections.empty()) write_detections(arguments.detections, detections);
  return detection_evaluator(model.config)
      .evaluate(dataset->ground_truth(), detections, {.source = arguments.checkpoint});
}

constexpr size_t kSampledDetections = 10;  // how many detections have their sampling points drawn

// Where the last decoder layer looked for one query, in pixels of the original image.
void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t query, int64_t label,
                         std::vector<DrawnPoint>& points) {
  const Target& target = batch.targets[0];
  double x_scale = static_cast<double>(batch.images.dim(2)) / static_cast<double>(target.width) *
                   static_cast<double>(target.original_width);
  double y_scale = static_cast<double>(batch.images.dim(1)) / static_cast<double>(target.height) *
                   static_cast<double>(target.original_height);
  std::vector<float> xy = record.locations.select(0, 0).select(0, query).to_vector<float>();
  std::vector<float> weights = record.weights.select(0, 0).select(0, query).to_vector<float>();
  float largest = *std::max_element(weights.begin(), weights.end());
  for (size_t i = 0; i < weights.size(); ++i)
    points.push_back(
        {xy[2 * i] * x_scale, xy[2 * i + 1] * y_scale, weights[i] / std::max(largest, 1e-9f), label});
}

class BoxPredictor : public Predictor {
 public:
  BoxPredictor(const PredictArguments& arguments, const LoadedModel& model)
      : arguments_(arguments),
        model_(model),
        detector_(model.as<Detector>()),
        norm_(image_normalization(model.config)),
        post_{.max_detections = model.config.eval().max_detections(),
              .classes = static_cast<int64_t>(model.category_ids.size())},
        threshold_(arguments.threshold.value_or(0.5)) {}

  void predict(const PredictInput& input, Image image, const Workspace& workspace) override {
    Batch batch = one_image_batch(image, model_.config);
    DetectorInput detector_in = detector_input(batch, norm_, detector_.device());
    detector_in.record_sampling = arguments_.sampling_points;
    DetectorOutput output = detector_.forward(detector_in);
    if (arguments_.sampling_points &&
        (output.sampling.empty() || !output.sampling.back().locations.defined()))
      fail_input("--sampling-points: the decoder of {} attends to every position, it samples none",
                 arguments_.checkpoint);
    std::vector<DrawnBox> boxes;
    std::vector<DrawnPoint> points;
    std::vector<ImageDetection> detections = detector_.postprocess(output, batch.targets, post_).front();
    for (const ImageDetection& d : detections) {
      if (d.score < threshold_) continue;
      list_ += fmt::format(
          "{}\n{{\"file_name\": {}, \"category_id\": {}, \"bbox\": [{}, {}, {}, {}], \"score\": {}}}",
          count_++ ? "," : "", json_quote(input.name), model_.category_ids[static_cast<size_t>(d.label)],
          d.x1, d.y1, d.x2 - d.x1, d.y2 - d.y1, d.score);
      if (arguments_.sampling_points && boxes.size() < kSampledDetections)
        add_sampling_points(output.sampling.back(), batch, d.query, d.label, points);
      boxes.push_back({d.x1, d.y1, d.x2, d.y2, d.label, d.score});
    }
    draw_points(image, points, std::max(1.5, static_cast<double>(std::min(image.height, image.width)) / 200));
    draw_boxes(image, boxes, model_.class_names);
    write_file(workspace.file(input.picture), encode_drawing(image));
  }
  std::string list_name() const override { return "detections.json"; }
  std::string list() const override { return list_; }
  std::string summary(size_t images) const override {
    return fmt::format("{}: {} pictures, detections.json with {} detections of score {} or more\n",
                       escaped(arguments_.output), images, count_, threshold_);
  }
  bool has_pictures() const override { return true; }

 private:
  const PredictArguments& arguments_;
  const LoadedModel& model_;
  Detector& detector_;
  kernels::ImageNormalization norm_;
  PostprocessOptions post_;
  double threshold_;
  std::string list_;
  int64_t count_ = 0;
};

std::unique_ptr<Predictor> box_predictor(const PredictArguments& arguments, const LoadedModel& model) {
  return std::make_unique<BoxPredictor>(arguments, model);
}

[[maybe_unused]] const bool detection_commands_registered = task_commands().add(
    {.name = "detection", .file = __FILE__, .evaluate = evaluate_detections, .predictor = box_predictor});

}  // namespace
}  // namespace saccade
