// The interface between detection models and the code that trains, evaluates and draws them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "core/types/image_size.h"
#include "core/types/instance.h"
#include "core/types/metrics.h"
#include "core/types/step_images.h"
#include "core/types/target.h"
#include "layers/attention.h"

namespace saccade {

// The output of a forward pass; each family has its own (models/detection/set_output.h).
struct DetectorOutput {
  virtual ~DetectorOutput() = default;
  // The result's tensors by name, before post-processing: the outputs of an exported model.
  virtual std::vector<std::pair<std::string, Var>> results() const = 0;

  std::vector<SamplingRecord> sampling;  // one per decoder layer if record_sampling is set
};

// The form of DetectorOutput::results().
struct ResultForm {
  // If true, each detection once: "scores" [N, D], "boxes" [N, D, 4] (corners, relative to the image),
  // "labels" [N, D] and, if there are masks, "masks", probabilities [N, D, h, w] in the box.
  // If false, "logits" and "boxes" of queries or anchors.
  bool finished = false;
  // For queries or anchors: detections must exceed this score, and so many of them overlap that they must be
  // suppressed. Empty if neither applies.
  std::optional<double> least_score = {};
};

struct DetectorInput {
  Var images;                    // [N, H, W, 3] normalised; 0 in the padding
  std::vector<ImageSize> sizes;  // [N] un-padded sizes; empty if no image is padded
  bool record_sampling = false;
  // In training, [N]: for queries that are made from the objects. Otherwise null.
  const std::vector<Target>* targets = nullptr;
  // The largest number of objects of an image if the step has further images
  // in other batches or processes; otherwise 0.
  int64_t most_objects = 0;
};

struct DetectionLoss {
  Var total;  // [] f32
  // The weighted parts by name; their sum is the total. Each is one f32 on the predictions' device.
  std::vector<std::pair<std::string, Tensor>> parts;
  MeanMetrics metrics;  // for logs
  // One line per image and layer whose predictions for objects are not finite; if there are any,
  // total is NaN.
  std::vector<std::string> problems;
  std::vector<int64_t> bad_images;  // the ids of these images, each once
};

// Its box is in pixels of the original image and is not clipped to it (as in the official code).
struct ImageDetection : Instance {
  int64_t query = 0;  // the query that found it
};

struct PostprocessOptions {
  int64_t max_detections = 100;
  // The number of logit columns that stand for a class; the later ones are never chosen. 0: all.
  int64_t classes = 0;
  // Removes a detection that overlaps a better one of its class by more than this (IoU); 1 removes none.
  double nms = 1;
};

// One list per image of the batch, by descending score.
using BatchDetections = std::vector<std::vector<ImageDetection>>;

// Owns its losses and turns its predictions into detections.
class Detector : public Module {
 public:
  static constexpr const char* kKind = "a detector";  // for messages
  virtual std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) = 0;
  // step: the images of the whole step, which determine the divisor of the sums; if empty, `targets` are all
  // images. Images without objects and batches without any are allowed.
  virtual DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                             const StepImages& step = {}) const = 0;
  // Returns what an image adds to StepImages::counted(), a number that depends only on its target, not on its
  // batch or on padding.
  virtual int64_t count(const Target& target) const { return static_cast<int64_t>(target.instances.size()); }
  // Computes, and keeps until loss(), what depends only on a target and the random numbers of a step (its
  // execution().rng_key). The code that loads the images may call it beforehand, from any thread; no result
  // depends on that.
  virtual void prepare(const Target& /*target*/, uint64_t /*rng_key*/) const {}
  virtual ResultForm result_form() const { return {}; }
  // The label that stands for no object and is never found, if it is among the classes.
  virtual std::optional<int64_t> background_label() const { return std::nullopt; }
  // Throws Error naming the image if a prediction is not finite.
  virtual BatchDetections postprocess(const DetectorOutput& output, const std::vector<Target>& targets,
                                      const PostprocessOptions& options) const = 0;
  // The same in two parts. The first starts the GPU's work and no longer needs the output afterwards. The
  // second, which is returned, waits for it; it is called once, while the detector lives. In between the GPU
  // may get the next batch.
  virtual std::function<BatchDetections()> start_postprocess(const DetectorOutput& output,
                                                             const std::vector<Target>& targets,
                                                             const PostprocessOptions& options) const {
    return [found = postprocess(output, targets, options)] { return found; };
  }
};

}  // namespace saccade
