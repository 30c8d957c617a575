// The interface between detection models and those who train, evaluate and draw them.
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

// What a forward pass yields: each family's own (models/detection/set_output.h).
struct DetectorOutput {
  virtual ~DetectorOutput() = default;
  // The result's tensors by name, before post-processing: what an exported model puts out.
  virtual std::vector<std::pair<std::string, Var>> results() const = 0;

  std::vector<SamplingRecord> sampling;  // one per decoder layer when record_sampling
};

// What DetectorOutput::results() are.
struct ResultForm {
  // Detections, each once: "scores" [N, D], "boxes" [N, D, 4] (corners, parts of the image), "labels" [N, D]
  // and, where there are masks, "masks", probabilities [N, D, h, w] in the box.
  // Else "logits" and "boxes" of queries or anchors.
  bool finished = false;
  // Of the latter: detections have a greater score, and this many of them overlap that they must be
  // suppressed;
  // nothing: neither.
  std::optional<double> least_score = {};
};

struct DetectorInput {
  Var images;                    // [N, H, W, 3] normalised; 0 in the padding
  std::vector<ImageSize> sizes;  // [N] parts that are no padding; empty when no image is padded
  bool record_sampling = false;
  // In training, [N]: for queries that are made from the objects. Else null.
  const std::vector<Target>* targets = nullptr;
  // Objects of the image that has the most, where the step has further images,
  // in other batches or processes; else 0.
  int64_t most_objects = 0;
};

struct DetectionLoss {
  Var total;  // [] f32
  // The weighted parts by name; their sum is the total. One number each, f32, where the predictions are.
  std::vector<std::pair<std::string, Tensor>> parts;
  MeanMetrics metrics;  // for logs
  // Not empty when predictions for objects are not finite, a line each with its image and layer;
  // total is then NaN.
  std::vector<std::string> problems;
  std::vector<int64_t> bad_images;  // their ids, each once
};

// Its box is in pixels of the original image, not cut to it (as in the official code).
struct ImageDetection : Instance {
  int64_t query = 0;  // which query found it
};

struct PostprocessOptions {
  int64_t max_detections = 100;
  // Columns of the logits that stand for a class; the ones after them are never chosen. 0: all.
  int64_t classes = 0;
  // A detection goes that overlaps a better one of its class by more than this (IoU); 1: none does.
  double nms = 1;
};

// One list per image of the batch, by falling score.
using BatchDetections = std::vector<std::vector<ImageDetection>>;

// Owns its losses and the way from its predictions to detections.
class Detector : public Module {
 public:
  virtual std::shared_ptr<const DetectorOutput> forward(const DetectorInput& input) = 0;
  // step: the images of the whole step, which say what the sums are divided by; empty: `targets` are all.
  // Images without objects and batches without any are fine.
  virtual DetectionLoss loss(const DetectorOutput& output, const std::vector<Target>& targets,
                             const StepImages& step = {}) const = 0;
  // What an image adds to StepImages::counted(), a number that follows from its target alone: not from its
  // batch, nor from padding.
  virtual int64_t count(const Target& target) const { return static_cast<int64_t>(target.instances.size()); }
  // Makes, and keeps until loss(), what follows from a target and the random numbers of a step (its
  // execution().rng_key) alone. Whoever loads the images calls it beforehand, from any thread; no result
  // depends on that.
  virtual void prepare(const Target& /*target*/, uint64_t /*rng_key*/) const {}
  virtual ResultForm result_form() const { return {}; }
  // The label that stands for no object and is never found, if it is one of those of the classes.
  virtual std::optional<int64_t> background_label() const { return std::nullopt; }
  // Throws Error naming the image when a prediction is not finite.
  virtual BatchDetections postprocess(const DetectorOutput& output, const std::vector<Target>& targets,
                                      const PostprocessOptions& options) const = 0;
  // The same in two parts: the first starts what the GPU has to do and no longer needs the output afterwards,
  // the second, which is returned and called once, while the detector lives, waits for it. Between them the
  // GPU may be given the next batch.
  virtual std::function<BatchDetections()> start_postprocess(const DetectorOutput& output,
                                                             std::vector<Target> targets,
                                                             const PostprocessOptions& options) const {
    return [found = postprocess(output, targets, options)] { return found; };
  }
};

}  // namespace saccade
