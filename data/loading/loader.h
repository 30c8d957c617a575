// DataLoader: makes batches of augmented images on background threads. The batches depend only on the data
// set and the options, never on the number of threads, timing or the cache.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/augment/augment.h"
#include "data/formats/dataset.h"
#include "data/loading/batch.h"
#include "data/loading/epoch_order.h"
#include "data/loading/mix.h"

namespace saccade {

// What happens if an image cannot be read or cannot be resized to a sane size.
enum class BadImages {
  kFail,      // InputError
  kReplace,   // the next readable one by index replaces it, so that batches keep their size
  kLeaveOut,  // its batch is smaller, and may have no targets and no tensors at all
};

// How several processes share the images: each one's loader yields its part of every batch, consecutive
// images (none, if there are fewer images than processes), or whole batches in turn.
enum class Sharing { kParts, kTurns };

// The label map of a target: that of the augmented image, or as it was read.
enum class LabelMapsOf { kAugmentedImage, kFile };

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;  // a new order per epoch, from (seed, epoch); otherwise by ascending image id
  Sampling sampling =
      Sampling::kUniform;  // with shuffle: how often an image is drawn; it is augmented anew each time
  double repeat_threshold = 0.001;  // of Sampling::kRepeatFactor
  bool group_by_shape =
      false;               // batches of portrait, square or landscape images, if the data set has their sizes
  bool drop_last = false;  // leaves out the last, smaller batch of an epoch
  uint64_t seed = 0;
  Augmentation augment;  // each image draws from its own stream (seed, epoch, image index)
  LabelMapsOf label_maps = LabelMapsOf::kAugmentedImage;
  MixOptions mix;  // each batch from (seed, epoch, batch), likewise the next two
  BatchMixup batch_mixup;
  MultiScale multi_scale;
  int64_t pad_multiple = 1;  // padded sizes are rounded up to this; 1 pads to the largest image, as in DETR
  int threads = 2;           // 0 makes the batches in next()
  int prefetch = 2;          // batches kept ready beyond the requested one
  BadImages bad_images = BadImages::kFail;
  int64_t cache_mb = 0;  // memory for decoded images; sets that fit are decoded once
  // Called for every batch by the thread that has made it; threads may call it at the same time.
  std::function<void(const Batch&)> made;
  // Where to start (resume), and the number of epochs from epoch 0 on (0: no end).
  int64_t start_epoch = 0, start_batch = 0, epochs = 0;
  // The process and the number of processes. The parts of all processes together are the batches of one.
  int64_t rank = 0, ranks = 1;
  Sharing sharing = Sharing::kParts;
};

class DataLoader {
 public:
  // Throws InputError if an epoch would have no batch, Error if an option is out of range.
  DataLoader(std::shared_ptr<const Dataset> source, LoaderOptions options);
  ~DataLoader();
  DataLoader& operator=(DataLoader&&) = delete;

  // Returns the next batch, continuing into the next epoch; nothing after the last epoch. The error of a
  // failed image (InputError naming the file) is thrown here instead of its batch, and again by every later
  // call, unless options.bad_images skips it. Not for two threads at once.
  std::optional<Batch> next();
  int64_t batches_per_epoch() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Makes the target of an augmented sample; the caller sets image_id and file_name.
Target make_target(const Sample& sample, ImageSize original);
// Makes one batch of augmented samples and their targets. Runs on the calling thread only.
Batch collate(const std::vector<Sample>& samples, std::vector<Target> targets, int64_t pad_multiple);
// Reduces a batch of `whole` images to its part [begin, end), unless it already has only this part.
void take_part(Batch& batch, int64_t begin, int64_t end, int64_t whole);
// Adds padding, up to this size.
void pad_batch(Batch& batch, int64_t height, int64_t width);

}  // namespace saccade
