// What is answered about images that come one at a time (`saccade serve`): each task has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/types/instance.h"
#include "data/images/image.h"
#include "data/loading/batch.h"
#include "train/config/config.h"

namespace saccade {

// A trained model at work, whatever its task.
class Inferencer {
 public:
  virtual ~Inferencer() = default;
  // From bytes to results on the host: for each image of the batch what was found, by falling score, in
  // pixels of the original image. A class of the whole image has a box around it. Called in evaluation mode,
  // without gradients; on a CPU from any number of threads. Throws NotFinite.
  virtual std::vector<std::vector<Instance>> run(const Batch& batch) = 0;
};

// What of it is wanted.
struct AnswerOptions {
  std::optional<double> threshold = {};   // smallest score; unset: 0.5
  std::vector<std::string> classes = {};  // names or category ids; empty: all
};

// A file in memory.
struct AnswerFile {
  std::string type;  // "image/png"
  std::vector<uint8_t> bytes;
};

// What was found in one image. Refers to the Answerer that found it; for any thread.
class Finding {
 public:
  virtual ~Finding() = default;
  // Members of a JSON object, as `saccade predict` writes them: "\"detections\": [...]".
  virtual std::string json(const AnswerOptions& options) const = 0;
  // One of Answerer::picture_formats(), drawn on the image or made of it.
  virtual AnswerFile picture(Image image, const std::string& format, const AnswerOptions& options) const = 0;
};

class Answerer {
 public:
  virtual ~Answerer() = default;
  // Throws InputError for options that do not go with the task or the classes of the model.
  virtual void check(const AnswerOptions& options) const = 0;
  virtual std::vector<std::string> picture_formats() const = 0;  // none: nothing is drawn
  // The configurations of its looks at an image: images are resized by each.
  virtual std::span<const Config> views() const = 0;
  // For each image of the batches, one batch for each of views(). In evaluation mode, by one thread at a
  // time. Throws NotFinite.
  virtual std::vector<std::shared_ptr<const Finding>> run(std::span<const Batch> views) = 0;
};

}  // namespace saccade
