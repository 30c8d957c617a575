// saccade predict: pictures with the detections of a checkpoint, and the detections as a list.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "autograd/scope.h"
#include "core/error.h"
#include "data/augment.h"
#include "data/draw.h"
#include "data/file.h"
#include "data/json.h"
#include "train/commands/commands.h"
#include "train/detector_input.h"
#include "train/device_choice.h"
#include "train/item_progress.h"
#include "train/load_detector.h"
#include "train/options.h"
#include "train/postprocess.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

constexpr size_t kSampledDetections = 10;  // so many detections get their sampling points drawn

struct Input {
  std::string path;
  std::string name;     // in detections.json
  std::string picture;  // file name of the picture
};

bool looks_like_an_image(const fs::path& path) {
  static const std::set<std::string> kExtensions{".jpg", ".jpeg", ".png", ".bmp", ".gif",
                                                 ".psd", ".tga",  ".ppm", ".pgm", ".pnm"};
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kExtensions.contains(extension);
}

// The images that the arguments name, folders expanded in alphabetical order, with distinct names.
std::vector<Input> collect_inputs(const std::vector<std::string>& arguments) {
  std::vector<Input> inputs;
  for (const std::string& argument : arguments) {
    if (!fs::is_directory(argument)) {
      inputs.push_back({argument, "", ""});
      continue;
    }
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(argument))
      if (entry.is_regular_file() && looks_like_an_image(entry.path()))
        files.push_back(entry.path().string());
    if (files.empty())
      fail_input("{}: no images in this folder, expected *.jpg, *.png or the like", argument);
    std::sort(files.begin(), files.end());
    for (std::string& file : files) inputs.push_back({std::move(file), "", ""});
  }
  std::map<std::string, int> count;
  for (const Input& input : inputs) ++count[fs::path(input.path).filename().string()];
  std::set<std::string> taken;
  for (Input& input : inputs) {
    std::string name = fs::path(input.path).filename().string(), stem = fs::path(input.path).stem().string();
    input.name = count[name] > 1 ? input.path : name;
    input.picture = stem + ".png";
    for (int i = 2; !taken.insert(input.picture).second; ++i)
      input.picture = fmt::format("{}_{}.png", stem, i);
    read_image_size(input.path);  // broken headers end the command before anything is computed
  }
  return inputs;
}

// A batch of one image, resized as for evaluation.
Batch one_image_batch(const Image& original, const Config& config) {
  Sample sample;
  sample.image = original;
  Rng no_chance(0);
  sample = augment(std::move(sample), eval_augment(config), no_chance);
  const Image& image = sample.image;
  int64_t multiple = config.data().pad_multiple();
  int64_t height = (image.height + multiple - 1) / multiple * multiple;
  int64_t width = (image.width + multiple - 1) / multiple * multiple;
  Batch batch;
  batch.images = Tensor::zeros({1, height, width, 3}, DType::kU8);
  batch.padding_mask = Tensor::full({1, height, width}, 1, DType::kBool);
  for (int64_t y = 0; y < image.height; ++y) {
    std::memcpy(batch.images.data<uint8_t>() + y * width * 3, image.row(y),
                static_cast<size_t>(image.width * 3));
    std::fill_n(batch.padding_mask.data<bool>() + y * width, image.width, false);
  }
  Target target;
  target.original_height = original.height;
  target.original_width = original.width;
  target.height = image.height;
  target.width = image.width;
  batch.targets.push_back(target);
  return batch;
}

// Where the last decoder layer looked for one query, in pixels of the original image.
void add_sampling_points(const SamplingRecord& record, const Batch& batch, int64_t query, int64_t label,
                         std::vector<DrawnPoint>& points) {
  const Target& target = batch.targets[0];
  double x_scale = static_cast<double>(batch.images.dim(2)) / static_cast<double>(target.width) *
                   static_cast<double>(target.original_width);
  double y_scale = static_cast<double>(batch.images.dim(1)) / static_cast<double>(target.height) *
                   static_cast<double>(target.original_height);
  std::vector<float> xy = record.locations.select(0, 0).select(0, query).to_vector<float>();
  std::vector<float> weights = record.weights.select(0, 0).select(0, query).to_vector<float>();
  float largest = *std::max_element(weights.begin(), weights.end());
  for (size_t i = 0; i < weights.size(); ++i)
    points.push_back(
        {xy[2 * i] * x_scale, xy[2 * i + 1] * y_scale, weights[i] / std::max(largest, 1e-9f), label});
}

// A folder beside the results that takes them until all are there; what is left is removed at the end.
class Workspace {
 public:
  explicit Workspace(const fs::path& output) : output_(output), existed_(fs::exists(output)) {
    if (existed_ && !fs::is_directory(output))
      fail_input("{}: is a file, expected a folder", output.string());
    path_ = output / fmt::format(".predict-{}", getpid());
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) fail_input("{}: cannot create the folder: {}", output.string(), error.message());
  }
  ~Workspace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (!existed_ && fs::is_empty(output_, ignored)) fs::remove(output_, ignored);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void publish(const std::string& name) const { fs::rename(path_ / name, output_ / name); }

 private:
  fs::path output_, path_;
  bool existed_;
};

}  // namespace

int run_predict(const PredictArguments& arguments) {
  choose_device(arguments.device);
  std::vector<Input> inputs = collect_inputs(arguments.images);
  LoadedDetector detector = load_detector(arguments.checkpoint);
  kernels::ImageNormalization norm = image_normalization(detector.config);
  const PostprocessOptions post{.max_detections = detector.config.eval().max_detections(),
                                .classes = static_cast<int64_t>(detector.category_ids.size()),
                                .softmax = detector.config.criterion().class_loss() == config::softmax};
  NoGrad no_grad;
  execution().compute = compute_dtype(detector.config);
  Workspace workspace(arguments.output);
  ItemProgress progress("predict", static_cast<int64_t>(inputs.size()), "images");
  std::string list;
  int64_t count = 0, done = 0;
  for (const Input& input : inputs) {
    Image image = read_image(input.path);
    Batch batch = one_image_batch(image, detector.config);
    DetectorInput detector_in = detector_input(batch, norm);
    detector_in.record_sampling = arguments.sampling_points;
    DetectorOutput output = detector.model->forward(detector_in);
    if (arguments.sampling_points && (output.sampling.empty() || !output.sampling.back().locations.defined()))
      fail_input("--sampling-points: the decoder of {} attends to every position, it samples none",
                 arguments.checkpoint);
    std::vector<DrawnBox> boxes;
    std::vector<DrawnPoint> points;
    std::vector<ImageDetection> detections = postprocess(output, batch.targets, post).front();
    for (const ImageDetection& d : detections) {
      if (d.score < arguments.threshold) continue;
      list += fmt::format(
          "{}\n{{\"file_name\": {}, \"category_id\": {}, \"bbox\": [{}, {}, {}, {}], \"score\": {}}}",
          count++ ? "," : "", json_quote(input.name), detector.category_ids[static_cast<size_t>(d.label)],
          d.x1, d.y1, d.x2 - d.x1, d.y2 - d.y1, d.score);
      if (arguments.sampling_points && boxes.size() < kSampledDetections)
        add_sampling_points(output.sampling.back(), batch, d.query, d.label, points);
      boxes.push_back({d.x1, d.y1, d.x2, d.y2, d.label, d.score});
    }
    draw_points(image, points, std::max(1.5, static_cast<double>(std::min(image.height, image.width)) / 200));
    draw_boxes(image, boxes, detector.class_names);
    write_png(image, workspace.file(input.picture));
    progress.update(++done);
  }
  progress.finish();
  write_file(workspace.file("detections.json"), std::string_view("[" + list + "\n]\n"));
  for (const Input& input : inputs) workspace.publish(input.picture);
  workspace.publish("detections.json");
  fmt::print("{}: {} pictures, detections.json with {} detections of score {} or more\n", arguments.output,
             inputs.size(), count, arguments.threshold);
  return 0;
}

}  // namespace saccade
