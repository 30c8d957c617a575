// DataLoader: batches of augmented images, made on background threads. What it yields depends on the data set
// and the options alone, never on the number of threads, timing or the cache.
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

// What happens when an image cannot be read, or not be resized to a sane size.
enum class BadImages {
  kFail,      // InputError
  kReplace,   // the next one by index that can be read replaces it, so that batches stay what they are
  kLeaveOut,  // its batch is smaller, and may have no targets and no tensors at all
};

// How several processes share the images: each one's loader yields its part of every batch, a run of images
// (none, where there are fewer images than processes), or whole batches in turn.
enum class Sharing { kParts, kTurns };

// The label map of a target: as the augmented image shows it, or as it was read.
enum class LabelMapsOf { kAugmentedImage, kFile };

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;  // a new order per epoch, from (seed, epoch); otherwise ascending image id
  Sampling sampling =
      Sampling::kUniform;  // with shuffle: how often an image is drawn; each time it is augmented anew
  double repeat_threshold = 0.001;  // of Sampling::kRepeatFactor
  bool group_by_shape =
      false;               // batches of upright, square or lying images, where the data set knows their sizes
  bool drop_last = false;  // leave out the last, smaller batch of an epoch
  uint64_t seed = 0;
  Augmentation augment;  // each image draws from its own stream (seed, epoch, image index)
  LabelMapsOf label_maps = LabelMapsOf::kAugmentedImage;
  MixOptions mix;  // each batch from (seed, epoch, batch), as the next two
  BatchMixup batch_mixup;
  MultiScale multi_scale;
  int64_t pad_multiple = 1;  // padded sizes are rounded up to this; 1 pads to the largest image, as DETR does
  int threads = 2;           // 0: everything happens in next()
  int prefetch = 2;          // batches kept ready beyond the one asked for
  BadImages bad_images = BadImages::kFail;
  int64_t cache_mb = 0;  // decoded images kept in memory until this is full; sets that fit are decoded once
  // Called with every batch by the thread that has made it, of several batches at a time.
  std::function<void(const Batch&)> made;
  // Where to begin (resume), and how many epochs there are from epoch 0 (0: no end).
  int64_t start_epoch = 0, start_batch = 0, epochs = 0;
  // The process and how many there are. The parts of all processes together are the batches of one.
  int64_t rank = 0, ranks = 1;
  Sharing sharing = Sharing::kParts;
};

class DataLoader {
 public:
  // Throws InputError when an epoch would have no batch, Error when an option is out of range.
  DataLoader(std::shared_ptr<const Dataset> source, LoaderOptions options);
  ~DataLoader();
  DataLoader& operator=(DataLoader&&) = delete;

  // The next batch, running on into the next epoch; nothing after the last epoch. A failed image (InputError
  // naming the file) is thrown here instead of its batch, and again by every later call, unless
  // options.bad_images passes over it. Not for two threads at once.
  std::optional<Batch> next();
  int64_t batches_per_epoch() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The target of an augmented sample; image_id and file_name are left to the caller.
Target make_target(const Sample& sample, ImageSize original);
// One batch from augmented samples and their targets. Runs on the calling thread only.
Batch collate(const std::vector<Sample>& samples, std::vector<Target> targets, int64_t pad_multiple);
// Of what a batch of `whole` images was mixed of, or of nothing but this part, the part.
void take_part(Batch& batch, int64_t begin, int64_t end, int64_t whole);
// Adds padding, up to this size.
void pad_batch(Batch& batch, int64_t height, int64_t width);

}  // namespace saccade
