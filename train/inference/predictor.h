// What `saccade predict` makes of images: each task has its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/formats/ground_truth.h"
#include "train/inference/picture_files.h"
#include "train/inference/picture_writer.h"

namespace saccade {

// Draws what was found on its frame. It may run on another thread, alongside later predictions.
using Drawing = std::function<void(Image&)>;

// The predictions of one run: a batch of images at a time, then their list.
class Predictor {
 public:
  virtual ~Predictor() = default;
  // What is found may wait for the next batch, which the GPU has then.
  virtual void predict(std::vector<LoadedInput> images, PictureNames& names, PictureWriter& writer) = 0;
  // What still waits.
  virtual void finish(PictureNames&, PictureWriter&) {}
  // The file of the list, those of its elements that nobody has taken yet, and what is printed at the end.
  virtual std::string list_name() const = 0;
  virtual std::string take_list() = 0;
  virtual std::string summary(size_t images) const = 0;
  // Of frames of a video in their order, of which it looks at many at once, the drawings.
  // The list grows as by predict.
  virtual std::vector<Drawing> predict_frames(const std::vector<LoadedInput>&) { return {}; }
  virtual bool takes_videos() const { return false; }
  virtual void begin_video() {}
  // Lines of MOT results (--to mot) that nobody has taken yet.
  virtual std::string take_tracks() { return ""; }
  // What is said of the video that ends: "12 objects"; "" for nothing.
  virtual std::string end_video() { return ""; }
  // Whether each image has a picture.
  virtual bool has_pictures() const = 0;
  // What was found in the images so far, of those that can be asked for labels (--to); null: of none.
  virtual const GroundTruth* labels() const { return nullptr; }
};

}  // namespace saccade
