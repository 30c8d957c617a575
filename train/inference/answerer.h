// The answers to requests with images that come one at a time (`saccade serve`); each task has its own.
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

// Runs a trained model, whatever its task.
class Inferencer {
 public:
  virtual ~Inferencer() = default;
  // From bytes to results on the host: returns for each image of the batch what was found, by falling score,
  // in pixels of the original image. The box of a whole-image class surrounds the image. Called in evaluation
  // mode, without gradients; on a CPU from any number of threads. Throws NotFinite.
  virtual std::vector<std::vector<Instance>> run(const Batch& batch) = 0;
};

// What a request asks for.
struct AnswerOptions {
  std::optional<double> threshold = {};   // lowest score; 0.5 if unset
  std::vector<std::string> classes = {};  // names or category ids; if empty, all
};

// A file in memory.
struct AnswerFile {
  std::string type;  // "image/png"
  std::vector<uint8_t> bytes;
};

// What was found in one image. Refers to the Answerer that found it; may be used from any thread.
class Finding {
 public:
  virtual ~Finding() = default;
  // Returns members of a JSON object, as `saccade predict` writes them: "\"detections\": [...]".
  virtual std::string json(const AnswerOptions& options) const = 0;
  // Returns a picture in one of Answerer::picture_formats(), drawn on the image or made from it.
  virtual AnswerFile picture(Image image, const std::string& format, const AnswerOptions& options) const = 0;
};

class Answerer {
 public:
  virtual ~Answerer() = default;
  // Throws InputError for options that do not fit the task or the classes of the model.
  virtual void check(const AnswerOptions& options) const = 0;
  virtual std::vector<std::string> picture_formats() const = 0;  // if empty, nothing is drawn
  // The configurations by which images are resized; the model sees each image once for each of them.
  virtual std::span<const Config> views() const = 0;
  // Returns a finding for each image of the batches, which are one for each of views(). In evaluation mode,
  // by one thread at a time. Throws NotFinite.
  virtual std::vector<std::shared_ptr<const Finding>> run(std::span<const Batch> views) = 0;
};

}  // namespace saccade
