#include "train/detection/evaluator.h"

#include "train/inference/model_input.h"
#include "train/logs/item_progress.h"

namespace saccade {

std::vector<Detection> detect(Detector& model, std::shared_ptr<const DetectionDataset> dataset,
                              const std::vector<int64_t>& category_ids, const EvaluatorOptions& options) {
  EvaluationMode mode(model, options.precision);
  DataLoader loader(dataset, options.loader);
  std::unique_ptr<ItemProgress> progress;
  if (!options.quiet) progress = std::make_unique<ItemProgress>("eval", dataset->num_images(), "images");
  const PostprocessOptions post{.max_detections = options.max_detections,
                                .classes = static_cast<int64_t>(category_ids.size())};
  std::vector<Detection> detections;
  int64_t done = 0;
  while (std::optional<Batch> batch = loader.next()) {
    DetectorOutput output = model.forward(detector_input(*batch, options.normalization, model.device()));
    auto results = model.postprocess(output, batch->targets, post);
    for (size_t n = 0; n < results.size(); ++n)
      for (const ImageDetection& d : results[n])
        detections.push_back({batch->targets[n].image_id,
                              category_ids[static_cast<size_t>(d.label)],
                              {d.x1, d.y1, d.x2 - d.x1, d.y2 - d.y1},
                              d.score});
    done += static_cast<int64_t>(results.size());
    if (progress) progress->update(done);
  }
  if (progress) progress->finish();
  return detections;
}

}  // namespace saccade
