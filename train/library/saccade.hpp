// The C++ interface of libsaccade: trained models on pixels in memory, and training from a recipe. Nothing else of the program
// is part of it. Exceptions are those of the standard library: std::invalid_argument for what the caller gave (a file, a
// configuration, pixels), with the line that the program would print; std::bad_alloc for memory; std::runtime_error for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define SACCADE_API __attribute__((visibility("default")))

namespace saccade {

// "0.2.0"; SACCADE_VERSION of saccade.h is the one that a program was compiled with.
SACCADE_API std::string library_version();

// How many threads one call computes with, the calling one included; at first OMP_NUM_THREADS, or else as many as there are
// processors. Every thread that calls has its own helpers, so a server that calls from many threads sets 1. Throws
// std::invalid_argument for a number below 1 or far beyond the machine's.
SACCADE_API void set_library_threads(int count);

enum class PixelOrder { kRgb = 0, kBgr = 1, kGreyscale = 2 };

// 8-bit pixels, rows from top to bottom. They stay the caller's and are not changed.
struct Pixels {
  const uint8_t* data = nullptr;
  int64_t width = 0, height = 0;
  int64_t stride = 0;  // bytes from one row to the next; 0: rows lie side by side
  PixelOrder order = PixelOrder::kRgb;
};

// An image in memory as it is in a file: JPEG, PNG, BMP, WebP, GIF or TIFF. The bytes stay the caller's.
struct EncodedImage {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::string name;  // what messages call it; "": "image 0", by its place in the call
};

// An image that the library has read.
struct DecodedImage {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // rows from top to bottom, side by side

  Pixels pixels() const { return {rgb.data(), width, height}; }  // they stay this object's
};
// The pixels that the models see: 8-bit RGB, turned as EXIF says, of several pictures in a file the first.
SACCADE_API DecodedImage decode_pixels(const EncodedImage& image);
SACCADE_API DecodedImage read_pixels(const std::string& path);

// What a model says about an image: a detector an object in its box, a classifier a class of the whole image, a model of label maps a class
// that has pixels, in the box around them.
struct Prediction {
  int label = 0;                            // position in class_names()
  double score = 0;                         // 0 to 1
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;    // pixels of the image as it was given; may lie a little outside
};

// Which pixels of an image are an object's: how many are not, are, are not, ... counted down the columns from the left one on, as COCO's
// "counts".
struct PixelMask {
  int64_t width = 0, height = 0;  // of the image; 0: there is no mask
  std::vector<uint32_t> counts;

  // Rows from top to bottom, 255 for the object's and 0 for the others.
  SACCADE_API std::vector<uint8_t> pixels() const;
};
struct MaskedPrediction : Prediction {
  PixelMask mask;
};

// A trained model, ready to run. Any number of threads may call the same one: the predictions are the same as from one thread. On a
// GPU the calls take turns.
class SACCADE_API Model {
 public:
  // A checkpoint that `saccade train` or `saccade convert` wrote. device: "auto" (a GPU that can be used, else the CPU), "cpu",
  // "cuda", or "cuda:1". A process uses one GPU: another number than that of the first one asked for is refused. The chosen one is then the
  // only one in CUDA_VISIBLE_DEVICES.
  explicit Model(const std::string& checkpoint, const std::string& device = "auto");
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  bool is_detector() const;                              // else a classifier, or a model of label maps
  const std::string& task() const;                       // "detection", "classification" or "segmentation"
  bool predicts_masks() const;                           // of objects, or of the pixels of a class
  bool is_on_gpu() const;
  // What images are resized to. Where their form is kept, the short side and the most that the long one may have.
  int64_t image_height() const;
  int64_t image_width() const;
  bool keeps_image_form() const;
  const std::vector<std::string>& class_names() const;
  const std::vector<int64_t>& category_ids() const;      // of the training annotations, one a class; a classifier has none

  // Predictions of a score of at least `threshold`, by falling score. Images are resized as the model's configuration says; those
  // of one call go through the model together.
  std::vector<Prediction> predict(const Pixels& image, double threshold = 0.5) const;
  std::vector<std::vector<Prediction>> predict(const std::vector<Pixels>& images, double threshold = 0.5) const;
  // Of a JPEG, PNG, BMP, WebP, GIF or TIFF file.
  std::vector<Prediction> predict_file(const std::string& path, double threshold = 0.5) const;
  // The same, with the masks of models that predict them (Mask R-CNN, say).
  std::vector<std::vector<MaskedPrediction>> predict_masks(const std::vector<Pixels>& images,
                                                           double threshold = 0.5) const;
  std::vector<MaskedPrediction> predict_masks_of_file(const std::string& path, double threshold = 0.5) const;
  // Of files in memory, which go through the model together.
  std::vector<std::vector<MaskedPrediction>> predict_encoded(const std::vector<EncodedImage>& images,
                                                             double threshold = 0.5) const;
  // Of a model of label maps: the class of each pixel, row by row, a position in class_names(). std::invalid_argument for another model.
  std::vector<int32_t> segment(const Pixels& image) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct TrainingSetup {
  std::string config;            // the recipe, a textproto
  std::string output;            // folder of the run, as `saccade train` writes it
  std::vector<std::string> set;  // changes of the recipe, "data.batch_size=4"
  std::string device = "auto";
  std::string init_from;         // weights to start from
  std::string init_key;          // the entry of a .pth file that holds them, as "ema.module"; "": found
  bool resume = false;           // go on with the run in `output`
};

// A training run, step by step: `saccade train` with the same recipe gives the same weights, bit for bit. Its calls come from one
// thread at a time.
class SACCADE_API Training {
 public:
  // Builds the model and opens the data sets.
  explicit Training(const TrainingSetup& setup);
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  // Takes one step, with the evaluation and the checkpoint where the recipe has them due. False when the run was
  // complete already; the first time it is then evaluated, unless the recipe had that done.
  bool step();
  int64_t steps_done() const;
  // Of the last step: "loss", its parts, "gradient_norm", "learning_rate", times. On a GPU those of the step before it.
  std::map<std::string, double> metrics() const;
  // Writes output/checkpoints/last.safetensors, from which Model loads and a run resumes.
  void save();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace saccade
