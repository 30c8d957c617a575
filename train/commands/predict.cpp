// saccade predict: pictures with the detections of a checkpoint, and the detections as a list.
#include <fmt/format.h>

#include <algorithm>

#include "core/formats/file.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "train/commands/commands.h"
#include "train/commands/device_choice.h"
#include "train/commands/predict_files.h"
#include "train/config/options.h"
#include "train/inference/evaluation.h"
#include "train/inference/model_input.h"
#include "train/logs/progress.h"

namespace saccade {

namespace {

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

int predict_boxes(const PredictArguments& arguments, const std::vector<PredictInput>& inputs,
                  const LoadedModel& model) {
  const double threshold = arguments.threshold.value_or(0.5);
  kernels::ImageNormalization norm = image_normalization(model.config);
  const PostprocessOptions post{.max_detections = model.config.eval().max_detections(),
                                .classes = static_cast<int64_t>(model.category_ids.size())};
  EvaluationMode mode(*model.detector, precision_of(model.config));
  Workspace workspace(arguments.output);
  ProgressCounter progress("predict", static_cast<int64_t>(inputs.size()), "images");
  std::string list;
  int64_t count = 0;
  for (const PredictInput& input : inputs) {
    Image image = read_image(input.path);
    Batch batch = one_image_batch(image, model.config);
    DetectorInput detector_in = detector_input(batch, norm, model.detector->device());
    detector_in.record_sampling = arguments.sampling_points;
    DetectorOutput output = model.detector->forward(detector_in);
    if (arguments.sampling_points && (output.sampling.empty() || !output.sampling.back().locations.defined()))
      fail_input("--sampling-points: the decoder of {} attends to every position, it samples none",
                 arguments.checkpoint);
    std::vector<DrawnBox> boxes;
    std::vector<DrawnPoint> points;
    std::vector<ImageDetection> detections = model.detector->postprocess(output, batch.targets, post).front();
    for (const ImageDetection& d : detections) {
      if (d.score < threshold) continue;
      list += fmt::format(
          "{}\n{{\"file_name\": {}, \"category_id\": {}, \"bbox\": [{}, {}, {}, {}], \"score\": {}}}",
          count++ ? "," : "", json_quote(input.name), model.category_ids[static_cast<size_t>(d.label)], d.x1,
          d.y1, d.x2 - d.x1, d.y2 - d.y1, d.score);
      if (arguments.sampling_points && boxes.size() < kSampledDetections)
        add_sampling_points(output.sampling.back(), batch, d.query, d.label, points);
      boxes.push_back({d.x1, d.y1, d.x2, d.y2, d.label, d.score});
    }
    draw_points(image, points, std::max(1.5, static_cast<double>(std::min(image.height, image.width)) / 200));
    draw_boxes(image, boxes, model.class_names);
    write_png(image, workspace.file(input.picture));
    progress.add(1);
  }
  progress.finish();
  write_file(workspace.file("detections.json"), std::string_view("[" + list + "\n]\n"));
  for (const PredictInput& input : inputs) workspace.publish(input.picture);
  workspace.publish("detections.json");
  fmt::print("{}: {} pictures, detections.json with {} detections of score {} or more\n", arguments.output,
             inputs.size(), count, threshold);
  return 0;
}

}  // namespace

int run_predict(const PredictArguments& arguments) {
  const DeviceChoice choice = choose_device(arguments.device);
  std::vector<PredictInput> inputs = collect_inputs(arguments.images);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device);
  if (!choice.notice.empty()) fmt::print("{}\n", choice.notice);
  return model.classifier ? predict_classes(arguments, inputs, model)
                          : predict_boxes(arguments, inputs, model);
}

}  // namespace saccade
