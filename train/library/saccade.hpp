// The C++ interface of libsaccade: trained models on pixels in memory, and training from a recipe. Nothing
// else of the program is part of it. Exceptions are those of the standard library: std::invalid_argument for
// what the caller gave (a file, a configuration, pixels), with the line that the program would print;
// std::bad_alloc for memory; std::runtime_error for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define SACCADE_API __attribute__((visibility("default")))

namespace saccade {

// Returns for example "0.2.0"; SACCADE_VERSION of saccade.h is the version that a program was compiled with.
SACCADE_API std::string library_version();

// The number of threads that one call computes with, including the calling one; by default OMP_NUM_THREADS,
// or else the number of processors. Every calling thread has its own helpers, so set 1 in a server that calls
// from many threads. Throws std::invalid_argument for a number below 1 or far above the machine's.
SACCADE_API void set_library_threads(int count);

enum class PixelOrder { kRgb = 0, kBgr = 1, kGreyscale = 2 };

// 8-bit pixels, rows from top to bottom. The caller keeps ownership; they are not changed.
struct Pixels {
  const uint8_t* data = nullptr;
  int64_t width = 0, height = 0;
  int64_t stride = 0;  // bytes from one row to the next; 0: rows without gaps
  PixelOrder order = PixelOrder::kRgb;
};

// The bytes of an image file: JPEG, PNG, BMP, WebP, GIF or TIFF. The caller keeps ownership.
struct EncodedImage {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::string name;  // its name in messages; "": "image 0", by its position in the call
};

// An image that the library has read.
struct DecodedImage {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // rows from top to bottom, without gaps

  Pixels pixels() const { return {rgb.data(), width, height}; }  // owned by this object
};
// The pixels that models see: 8-bit RGB, rotated as EXIF says, the first of several pictures in a file. A
// JPEG whose data is damaged but can be decoded is no error, here and in predict_file, predict_masks_of_file
// and predict_encoded: some of its pixels may be wrong.
SACCADE_API DecodedImage decode_pixels(const EncodedImage& image);
SACCADE_API DecodedImage read_pixels(const std::string& path);

// What a model finds in an image: a detector an object and its box, a classifier a class of the whole image,
// a segmentation model a class that has pixels, and the box around them.
struct Prediction {
  int label = 0;                            // position in class_names()
  double score = 0;                         // 0 to 1
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;    // pixels of the input image; may be a little outside
};

// The pixels of an object, as COCO's "counts": the number of pixels outside, inside, outside, ... counted
// down the columns from the left.
struct PixelMask {
  int64_t width = 0, height = 0;  // of the image; 0: there is no mask
  std::vector<uint32_t> counts;

  // Rows from top to bottom, 255 for pixels of the object and 0 for others.
  SACCADE_API std::vector<uint8_t> pixels() const;
};
struct MaskedPrediction : Prediction {
  PixelMask mask;
};

// A trained model, ready to run. Any number of threads may use the same one; predictions do not depend on
// their number. On a GPU, the calls take turns.
class SACCADE_API Model {
 public:
  // Loads a checkpoint that `saccade train` or `saccade convert` wrote. device: "auto" (a GPU if it can be
  // used, otherwise the CPU), "cpu", "cuda", or "cuda:1". A process uses one GPU: after the first request,
  // another number is refused. The chosen one is then the only one in CUDA_VISIBLE_DEVICES.
  explicit Model(const std::string& checkpoint, const std::string& device = "auto");
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  bool is_detector() const;                              // otherwise a classifier or a segmentation model
  const std::string& task() const;                       // "detection", "classification" or "segmentation"
  bool predicts_masks() const;                           // of objects, or of the pixels of a class
  bool is_on_gpu() const;
  // The size that images are resized to. If the aspect ratio is kept, the height is the short side and the
  // width the largest long side.
  int64_t image_height() const;
  int64_t image_width() const;
  bool keeps_image_form() const;
  const std::vector<std::string>& class_names() const;
  // Of the training annotations, one per class; a classifier has none.
  const std::vector<int64_t>& category_ids() const;

  // Predictions with a score of at least `threshold`, in descending order of score. Images are resized as the
  // model's configuration says; the images of one call form one batch.
  std::vector<Prediction> predict(const Pixels& image, double threshold = 0.5) const;
  std::vector<std::vector<Prediction>> predict(const std::vector<Pixels>& images,
                                               double threshold = 0.5) const;
  // The same for a JPEG, PNG, BMP, WebP, GIF or TIFF file.
  std::vector<Prediction> predict_file(const std::string& path, double threshold = 0.5) const;
  // The same, with masks from models that predict them, such as Mask R-CNN.
  std::vector<std::vector<MaskedPrediction>> predict_masks(const std::vector<Pixels>& images,
                                                           double threshold = 0.5) const;
  std::vector<MaskedPrediction> predict_masks_of_file(const std::string& path, double threshold = 0.5) const;
  // The same for files in memory, as one batch.
  std::vector<std::vector<MaskedPrediction>> predict_encoded(const std::vector<EncodedImage>& images,
                                                             double threshold = 0.5) const;
  // For segmentation models: the class of each pixel, row by row, as a position in class_names().
  // std::invalid_argument for other models.
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
  std::string init_key;          // the entry of a .pth file that holds them, like "ema.module"; "": detected
  bool resume = false;           // continue with the run in `output`
};

// A training run, step by step, with the same weights, bit for bit, as `saccade train` with the same recipe.
// Call it from one thread at a time.
class SACCADE_API Training {
 public:
  // Builds the model and opens the data sets.
  explicit Training(const TrainingSetup& setup);
  ~Training();
  Training(Training&&) noexcept;
  Training& operator=(Training&&) noexcept;

  // Takes one step, and evaluates and saves a checkpoint if the recipe says so. False if the run is complete;
  // the first such call evaluates it, unless the recipe has already done so.
  bool step();
  int64_t steps_done() const;
  // Metrics of the last step: "loss", its parts, "gradient_norm", "learning_rate", times. On a GPU, those of
  // the step before.
  std::map<std::string, double> metrics() const;
  // Writes output/checkpoints/last.safetensors, from which Model loads and a run resumes.
  void save();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace saccade
