// Makes predictions for `saccade predict`; each task has its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/formats/ground_truth.h"
#include "train/inference/picture_files.h"
#include "train/inference/picture_writer.h"

namespace saccade {

// Draws what was found onto its frame. It may run on another thread, alongside later predictions.
using Drawing = std::function<void(Image&)>;

// The predictions of one run: one batch of images at a time, and their list.
class Predictor {
 public:
  virtual ~Predictor() = default;
  // May leave the results to be collected at the next batch, while the GPU computes that one.
  virtual void predict(std::vector<LoadedInput> images, PictureNames& names, PictureWriter& writer) = 0;
  // Collects the results that still wait.
  virtual void finish(PictureNames&, PictureWriter&) {}
  // The file name of the list, its elements since the last call, and the summary printed at the end.
  virtual std::string list_name() const = 0;
  virtual std::string take_list() = 0;
  virtual std::string summary(size_t images) const = 0;
  // Returns the drawings for frames of a video, given in order and many at once. The list grows as with
  // predict.
  virtual std::vector<Drawing> predict_frames(const std::vector<LoadedInput>&) { return {}; }
  virtual bool takes_videos() const { return false; }
  virtual void begin_video() {}
  // The lines of MOT results (--to mot) since the last call.
  virtual std::string take_tracks() { return ""; }
  // The summary of the video that ends: "12 objects"; empty if there is nothing to say.
  virtual std::string end_video() { return ""; }
  // Whether each image gets a picture.
  virtual bool has_pictures() const = 0;
  // What was found in the images so far, for tasks that can write labels (--to); null for others.
  virtual const GroundTruth* labels() const { return nullptr; }
};

}  // namespace saccade
