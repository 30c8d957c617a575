// saccade predict with a detector: pictures with boxes, and the detections as a list.
#include "train/tasks/detection/detection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"
#include "data/images/draw.h"
#include "data/pages/order.h"
#include "train/config/options.h"
#include "train/inference/evaluation.h"
#include "train/tasks/detection/found_objects.h"
#include "train/tasks/detection/runner.h"
#include "train/tasks/detection/tiles.h"
#include "train/video/byte_tracker.h"

namespace saccade {
namespace {

constexpr size_t kSampledDetections = 10;  // for how many detections sampling points are drawn

// Returns the picture file of an object's box, which is clipped to the image and at least a pixel; for an
// object with a mask, only its pixels.
std::vector<uint8_t> cut_out(const Image& image, const Instance& object) {
  const Mask* mask = object.mask && object.mask->area() > 0 ? object.mask.get() : nullptr;
  const Box& box = mask ? mask->box() : object.box;
  auto place = [](double low, double high, int64_t size) {
    const auto limit = static_cast<double>(size);
    const auto begin = static_cast<int64_t>(std::floor(std::clamp(low, 0.0, limit - 1)));
    const auto end = static_cast<int64_t>(std::ceil(std::clamp(high, 0.0, limit)));
    return std::pair{begin, std::max(end, begin + 1)};
  };
  const auto [x1, x2] = place(box.x1, box.x2, image.width);
  const auto [y1, y2] = place(box.y1, box.y2, image.height);
  const ImageSize size{y2 - y1, x2 - x1};
  const Image part = cut_out(image, y1, x1, size);
  if (!mask) return encode_drawing(part);
  const Mask own = mask->crop(y1, x1, size);
  return encode_drawing(part, &own);
}

class BoxPredictor : public Predictor {
 public:
  BoxPredictor(const PredictArguments& arguments, const LoadedModel& model)
      : arguments_(arguments),
        model_(model),
        detector_(model.as<Detector>()),
        runner_(detector_, image_normalization(model.config)),
        post_(postprocess_options(model.config, std::ssize(model.category_ids))),
        threshold_(arguments.threshold.value_or(0.5)),
        shown_(shown_labels(arguments.classes, model, "--classes: " + arguments.checkpoint)),
        counts_(model.class_names.size(), 0) {
    for (size_t k = 0; k < model.class_names.size(); ++k)
      if (model.class_names[k] != kNoCategory)
        labels_.categories.push_back({model.category_ids[k], model.class_names[k]});
    if (arguments.tile > 0 && arguments.sampling_points)
      fail_input("--sampling-points and --tile cannot be combined");
    if (arguments.video.track && arguments.threshold)
      fail_input("--threshold: does not apply with --track, expected --track-threshold");
  }

  void predict(std::vector<LoadedInput> images, PictureNames& names, PictureWriter& writer) override {
    if (detector_.device() == Device::kCpu || arguments_.tile > 0 || arguments_.sampling_points) {
      for (size_t n = 0; Found & found : look_at(images))
        draw(std::move(images[n++]), std::move(found), names, writer);
      return;
    }
    // While the GPU computes these images, the host continues with the previous ones.
    const Batch batch = batch_of(images, model_.config);
    Started now{std::move(images), detector_.start_postprocess(*runner_.run(batch), batch.targets, post_)};
    finish(names, writer);
    started_ = std::move(now);
  }
  void finish(PictureNames& names, PictureWriter& writer) override {
    std::optional<Started> before = std::exchange(started_, std::nullopt);
    if (!before) return;
    for (size_t n = 0; auto& detections : before->finish()) {
      LoadedInput& loaded = before->images[n++];
      draw(std::move(loaded), {shown(std::move(detections), false), {}}, names, writer);
    }
  }
  bool takes_videos() const override { return true; }
  void begin_video() override { tracker_ = ByteTracker(arguments_.video.tracking); }
  std::vector<Drawing> predict_frames(const std::vector<LoadedInput>& frames) override {
    std::vector<Drawing> drawings;
    for (size_t n = 0; Found & found : look_at(frames))
      drawings.push_back(add_frame(frames[n++], std::move(found)));
    return drawings;
  }
  std::string take_tracks() override { return std::exchange(mot_, {}); }
  std::string end_video() override {
    return arguments_.video.track ? count_of(tracker_.count(), "object", "objects") + " tracked" : "";
  }
  std::string list_name() const override { return "detections.json"; }
  std::string take_list() override { return std::exchange(list_, {}); }
  std::string summary(size_t images) const override {
    const std::string labels =
        arguments_.wants_labels() ? fmt::format(", labels of all images in {}/", arguments_.to) : "";
    const std::string pictures =
        images == 0 ? ""
                    : count_of(static_cast<int64_t>(images), arguments_.pictures ? "picture" : "image",
                               arguments_.pictures ? "pictures" : "images") +
                          ", ";
    std::string text =
        table() +
        fmt::format("{}: {}detections.json with {} of {}{}\n", escaped(arguments_.output), pictures,
                    count_of(count_, "detection", "detections"),
                    arguments_.video.track ? "tracked objects" : fmt::format("score {} or more", threshold_),
                    labels);
    const auto own = own_threshold(model_.config);
    if (own && threshold_ < own->score && !arguments_.video.track)
      text += fmt::format("note: the model itself drops scores up to {0}; --set {1}=0 keeps them\n",
                          own->score, own->field);
    else if (own && own->score > 0 && count_ == 0 && best_ == 0)
      text +=
          fmt::format("note: no score exceeds {0} ({1}); --set {0}=0 --threshold 0 shows all detections\n",
                      own->field, own->score);
    if (count_ == 0 && best_ > 0 && !arguments_.video.track)
      text += fmt::format("note: the best score is {:.3f}; a lower --threshold shows its detection\n", best_);
    if (arguments_.tile > 0 && !is_cut_)
      text += fmt::format("note: --tile {}: changes nothing, no image is larger\n", arguments_.tile);
    return text;
  }
  bool has_pictures() const override { return arguments_.pictures; }
  const GroundTruth* labels() const override { return &labels_; }

 private:
  // What is shown of an image.
  struct Found {
    std::vector<ImageDetection> objects;
    std::vector<DrawnPoint> points;
    std::vector<int64_t> tracks = {};  // of the objects, 0: none; empty without tracking
  };

  // Images that were handed to the GPU.
  struct Started {
    std::vector<LoadedInput> images;
    std::function<BatchDetections()> finish;
  };

  std::vector<Found> look_at(const std::vector<LoadedInput>& images) {
    std::vector<Found> found;
    if (arguments_.tile > 0) {
      for (const LoadedInput& loaded : images)
        found.push_back({shown(in_tiles(loaded), loaded.frame.has_value()), {}});
      return found;
    }
    const Batch batch = batch_of(images, model_.config);
    const auto output = runner_.run(batch, arguments_.sampling_points);
    if (arguments_.sampling_points &&
        (output->sampling.empty() || !output->sampling.back().locations.defined()))
      fail_input("--sampling-points: {} has no attention that samples points in its last layer",
                 arguments_.checkpoint);
    auto detections = detector_.postprocess(*output, batch.targets, post_);
    for (size_t n = 0; n < images.size(); ++n) {
      found.push_back({shown(std::move(detections[n]), images[n].frame.has_value()), {}});
      if (!arguments_.sampling_points) continue;
      const std::vector<ImageDetection>& objects = found.back().objects;
      for (size_t k = 0; k < std::min(objects.size(), kSampledDetections); ++k)
        add_sampling_points(output->sampling.back(), batch, static_cast<int64_t>(n), objects[k].query,
                            objects[k].label, found.back().points);
    }
    return found;
  }

  // Keeps the detections to show; in a tracked frame also those with a low score.
  std::vector<ImageDetection> shown(std::vector<ImageDetection> detections, bool is_frame) {
    const double threshold = lowest_score(is_frame);
    std::vector<ImageDetection> kept;
    for (ImageDetection& d : detections) {
      if (!shown_[static_cast<size_t>(d.label)]) continue;
      best_ = std::max(best_, d.score);
      if (d.score < threshold) continue;
      if (arguments_.max > 0 && std::ssize(kept) == arguments_.max) break;
      kept.push_back(std::move(d));
    }
    return kept;
  }
  double lowest_score(bool is_frame) const {
    const VideoArguments& video = arguments_.video;
    return is_frame && video.track ? std::min(video.tracking.low, video.tracking.high) : threshold_;
  }

  // Lists a frame's detections, when tracking only those with a track, and returns how to draw them.
  Drawing add_frame(const LoadedInput& frame, Found found) {
    if (arguments_.video.track) {
      const std::vector<int64_t> ids =
          tracker_.update(std::vector<Instance>(found.objects.begin(), found.objects.end()));
      size_t kept = 0;
      for (size_t k = 0; k < ids.size(); ++k) {
        if (ids[k] == 0) continue;
        found.tracks.push_back(ids[k]);
        if (k != kept) found.objects[kept] = std::move(found.objects[k]);
        ++kept;
      }
      found.objects.resize(kept);
    }
    for (size_t k = 0; k < found.objects.size(); ++k) {
      const ImageDetection& d = found.objects[k];
      add_to_list(frame, d, "", found.tracks.empty() ? 0 : found.tracks[k]);
      if (arguments_.to == kMot)
        mot_ += fmt::format("{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.4f},-1,-1,-1\n", frame.frame->number + 1,
                            found.tracks[k], d.box.x1, d.box.y1, d.box.width(), d.box.height(), d.score);
    }
    return [this, found = std::move(found)](Image& image) { draw_found(image, found); };
  }

  void draw_found(Image& image, const Found& found) const {
    draw_points(image, found.points,
                std::max(1.5, static_cast<double>(std::min(image.height, image.width)) / 200));
    draw_boxes(image, {found.objects.begin(), found.objects.end()}, model_.class_names, arguments_.style,
               found.tracks);
  }

  // Runs --batch-size tiles at a time.
  std::vector<ImageDetection> in_tiles(const LoadedInput& loaded) {
    const ImageSize size{loaded.image.height, loaded.image.width};
    const std::vector<Tile> tiles = tiles_of(size, arguments_.tile, arguments_.tile_overlap);
    is_cut_ = is_cut_ || tiles.size() > 1;
    std::vector<std::vector<ImageDetection>> found;
    while (found.size() < tiles.size()) {
      std::vector<LoadedInput> parts;
      for (size_t t = found.size(); t < tiles.size() && std::ssize(parts) < arguments_.batch_size; ++t) {
        const auto [x, y, width, height] = tiles[t];
        parts.push_back({loaded.input, cut_out(loaded.image, y, x, {height, width})});
      }
      const Batch batch = batch_of(parts, model_.config);
      for (auto& detections : detector_.postprocess(*runner_.run(batch), batch.targets, post_)) {
        const double threshold = lowest_score(loaded.frame.has_value());
        for (const ImageDetection& d : detections)
          if (shown_[static_cast<size_t>(d.label)]) best_ = std::max(best_, d.score);
        std::erase_if(detections, [&](const ImageDetection& d) { return d.score < threshold; });
        found.push_back(std::move(detections));
      }
    }
    return merge_tiles(size, tiles, found);
  }

  // Lists what was found, and queues its drawing.
  void draw(LoadedInput loaded, Found found, PictureNames& names, PictureWriter& writer) {
    const PredictInput& input = *loaded.input;
    if (arguments_.wants_labels()) add_labels_image(input, loaded.image);
    std::vector<std::string> files;
    for (const ImageDetection& d : found.objects) {
      std::string crop;
      if (arguments_.crop) {
        crop = names.name(crop_stem(input));
        files.push_back(crop);
      }
      add_to_list(loaded, d, crop);
      if (arguments_.wants_labels()) add_label(d);
    }
    if (arguments_.pictures) files.push_back(input.picture);
    if (files.empty()) return;
    auto image = std::make_shared<Image>(std::move(loaded.image));
    writer.add(files, [this, &writer, files, image, found = std::move(found)] {
      write_pictures(writer.workspace(), files, *image, found);
    });
  }
  // Writes the crops, then the picture, under these names.
  void write_pictures(const Workspace& workspace, const std::vector<std::string>& files, Image& image,
                      const Found& found) const {
    if (arguments_.crop)
      for (size_t k = 0; k < found.objects.size(); ++k)
        write_file(workspace.file(files[k]), cut_out(image, found.objects[k]));
    if (!arguments_.pictures) return;
    draw_found(image, found);
    write_file(workspace.file(files.back()), encode_drawing(image, arguments_.format));
  }

  // `crop`: empty for none; `track`: 0 for none
  void add_to_list(const LoadedInput& loaded, const Instance& found, const std::string& crop,
                   int64_t track = 0) {
    list_ += fmt::format("{}\n{}", count_++ ? "," : "", list_entry(*loaded.input, loaded.frame));
    if (track > 0) list_ += fmt::format(", \"track_id\": {}", track);
    list_ += ", " + object_json(found, model_);
    if (const std::string& picture = loaded.input->picture; !picture.empty())
      list_ += fmt::format(", \"picture\": {}", json_quote(picture));
    list_ += segmentation_json(found);
    list_ += crop.empty() ? "}" : fmt::format(", \"crop\": {}}}", json_quote(crop));
    ++counts_[static_cast<size_t>(found.label)];
  }

  void add_labels_image(const PredictInput& input, const Image& image) {
    labels_.images.push_back({.id = std::ssize(labels_.images) + 1,
                              .file_name = input.name,
                              .width = image.width,
                              .height = image.height});
  }

  // Adds a label of the image that was added last.
  void add_label(const Instance& found) {
    const double width = found.box.width(), height = found.box.height();
    Annotation label{.id = std::ssize(labels_.annotations) + 1,
                     .image_id = labels_.images.back().id,
                     .category_id = model_.category_ids[static_cast<size_t>(found.label)],
                     .bbox = {found.box.x1, found.box.y1, width, height},
                     .area = found.mask ? static_cast<double>(found.mask->area()) : width * height,
                     .score = found.score};
    if (found.mask) {
      auto segmentation = std::make_shared<Segmentation>();
      segmentation->runs = *found.mask;
      label.segmentation = std::move(segmentation);
    }
    labels_.annotations.push_back(std::move(label));
  }

  // Returns the number of detections of each class, the most frequent class first.
  std::string table() const {
    std::string out;
    for (size_t k : falling_order(counts_.size(), [&](size_t k) { return counts_[k]; }))
      if (counts_[k] > 0) out += fmt::format("{:8} {}\n", counts_[k], printable(model_.class_names[k]));
    return out;
  }

  const PredictArguments& arguments_;
  const LoadedModel& model_;
  Detector& detector_;
  DetectorRunner runner_;
  PostprocessOptions post_;
  std::optional<Started> started_;
  double threshold_;
  bool is_cut_ = false;          // whether some image was processed in tiles
  std::vector<bool> shown_;      // [K]
  std::vector<int64_t> counts_;  // [K]
  std::string list_;
  int64_t count_ = 0;
  double best_ = 0;     // the highest score
  GroundTruth labels_;  // for --to
  ByteTracker tracker_{TrackerOptions()};
  std::string mot_;
};

}  // namespace

std::unique_ptr<Predictor> DetectionParts::predictor(const PredictArguments& arguments,
                                                     const LoadedModel& model) const {
  return std::make_unique<BoxPredictor>(arguments, model);
}

}  // namespace saccade
