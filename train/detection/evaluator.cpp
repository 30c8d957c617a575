#include "train/detection/evaluator.h"

#include "data/evaluation/chosen_classes.h"
#include "data/evaluation/detection_bytes.h"
#include "data/formats/annotated_images.h"
#include "train/inference/runner.h"
#include "train/logs/print.h"

namespace saccade {

std::vector<Detection> detect(Detector& model, const std::shared_ptr<const DetectionDataset>& dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options) {
  PostprocessOptions post = options.post;
  post.classes = std::ssize(category_ids);
  DetectorRunner runner(model, options.normalization);
  auto add = [&](const Batch& batch, std::vector<Detection>& to) {
    const auto results = model.postprocess(*runner.run(batch), batch.targets, post);
    for (size_t n = 0; n < results.size(); ++n)
      for (const ImageDetection& d : results[n])
        to.push_back({.image_id = batch.targets[n].image_id,
                      .category_id = category_ids[static_cast<size_t>(d.label)],
                      .bbox = {d.x1, d.y1, d.x2 - d.x1, d.y2 - d.y1},
                      .score = d.score});
  };
  if (process_group().alone()) {
    std::vector<Detection> all;
    for_each_batch(model, dataset, options, [&](const Batch& batch) { add(batch, all); });
    return all;
  }
  return detections_of(collect_bytes(model, dataset, options, [&](const Batch& batch) {
    std::vector<Detection> found;
    add(batch, found);
    return to_bytes(found);
  }));
}

std::shared_ptr<const DetectionDataset> keep_classes(const std::shared_ptr<const DetectionDataset>& dataset,
                                                     const DataPaths& paths,
                                                     const std::vector<std::string>& names,
                                                     std::vector<Detection>& detections) {
  if (names.empty()) return dataset;
  GroundTruth truth = dataset->ground_truth();
  for (const std::string& line : keep_classes(names, dataset->name(), truth, detections))
    print_line("note: {}: {}", dataset->name(), line);
  return std::make_shared<AnnotatedImages>(dataset->name(), paths.images, std::move(truth),
                                           LabelScheme::kContiguous);
}

}  // namespace saccade
