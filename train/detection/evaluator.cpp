#include "train/detection/evaluator.h"

#include "data/evaluation/chosen_classes.h"
#include "data/formats/annotated_images.h"
#include "train/inference/runner.h"
#include "train/logs/print.h"

namespace saccade {

std::vector<Detection> detect(Detector& model, const std::shared_ptr<const DetectionDataset>& dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options) {
  PostprocessOptions post = options.post;
  post.classes = std::ssize(category_ids);
  DetectorRunner runner(model, options.normalization);
  return collect<Detection>(model, dataset, options,
                            [&](const Batch& batch, std::vector<Detection>& detections) {
                              auto results = model.postprocess(*runner.run(batch), batch.targets, post);
                              for (size_t n = 0; n < results.size(); ++n)
                                for (const ImageDetection& d : results[n])
                                  detections.push_back({batch.targets[n].image_id,
                                                        category_ids[static_cast<size_t>(d.label)],
                                                        {d.box.x1, d.box.y1, d.box.width(), d.box.height()},
                                                        d.score});
                            });
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
