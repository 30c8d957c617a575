// What can be asked of a trained model, as `saccade eval` and `saccade predict` take it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/evaluation/metric_options.h"
#include "data/images/draw.h"
#include "train/video/byte_tracker.h"

namespace saccade {

struct EvalArguments {
  std::string checkpoint, annotations, images, detections, json, device = "auto";
  std::vector<std::string> data;  // or folders, and which of their splits
  std::string split = "val";
  std::vector<std::string> classes;  // the metrics are of these only; empty: of all
  std::string precision;             // "": the configuration's
  std::vector<std::string> set;      // of what inference depends on
  int64_t batch_size = 0;            // 0: the configuration's
  int64_t image_size = 0;            // likewise, of the evaluation
  bool allow_outside = false;        // images may be outside their folder
  bool per_class = false;            // of a detector: the metrics of each class too
  MetricOptions metric_options;
};

// Labels that the model contradicts (data/evaluation/label_errors.h), in a report.
struct LabelErrorOptions {
  std::string folder = {};       // for the list of them and labels with what the model says instead; "": none
  std::string form = "coco";     // of these labels
  double least_suspicion = 0.5;  // of those that are told
  bool operator==(const LabelErrorOptions&) const = default;
};

// Of videos.
struct VideoArguments {
  int64_t every = 1;       // of this many frames one is looked at
  int64_t max_frames = 0;  // no more are looked at; 0: all
  bool track = false;      // detections of one object have one number
  TrackerOptions tracking;
};
inline constexpr const char* kMot = "mot";  // `to`: tracks as the MOT challenge has them

struct PredictArguments {
  std::string checkpoint, output, device = "auto";
  std::vector<std::string> images;  // files, folders of images, or patterns (*.jpg); videos, cameras, streams
  std::string list;                 // a file with more of them, one a line
  std::string precision;            // "": the configuration's
  std::vector<std::string> set;     // of what inference depends on
  int64_t batch_size = 1;           // images at a time
  int64_t image_size = 0;           // 0: the configuration's, of the evaluation
  std::optional<double> threshold;  // of boxes; unset: 0.5
  std::vector<std::string> classes;  // names or category ids; empty: all
  int64_t max = 0;                   // detections of an image, the best by score; 0: the configuration's
  bool sampling_points = false;
  std::string to;              // the detections as labels of this format, too, or kMot; "": no
  bool pictures = true;        // whether they are drawn
  std::string format = "png";  // of the pictures
  DrawStyle style = {};
  bool crop = false;           // also each object as a picture of its own
  bool recursive = false;      // also the folders in folders
  int64_t tile = 0;            // side of the tiles in which an image is seen, in pixels; 0: all at once
  double tile_overlap = 0.25;  // share of a side that neighbours have in common at least
  VideoArguments video;

  bool wants_labels() const { return !to.empty() && to != kMot; }
  // The flags that mean nothing to models that find no objects, and whether they are given.
  std::vector<std::pair<const char*, bool>> flags_of_objects() const {
    return {{"--sampling-points", sampling_points},
            {"--classes", !classes.empty()},
            {"--max", max > 0},
            {"--no-pictures", !pictures},
            {"--picture-format", format != "png"},
            {"--line-width", style.line_width.has_value()},
            {"--letter-size", style.letter_size.has_value()},
            {"--crop", crop},
            {"--track", video.track}};
  }
};

}  // namespace saccade
