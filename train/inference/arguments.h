// The arguments of `saccade eval` and `saccade predict`, which run a trained model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text.h"
#include "data/evaluation/metric_options.h"
#include "data/images/draw.h"
#include "train/video/byte_tracker.h"

namespace saccade {

struct EvalArguments {
  std::string checkpoint, annotations, images, detections, json, device = "auto";
  std::vector<std::string> data;  // or folders, of which `split` is evaluated
  std::string split = "val";
  std::vector<std::string> classes;  // the metrics cover only these; if empty, all
  std::string precision;             // if empty, the configuration's
  std::vector<std::string> set;      // edits of fields that affect inference
  int64_t batch_size = 0;            // 0: the configuration's
  int64_t image_size = 0;            // 0: the evaluation size of the configuration
  bool allow_outside = false;        // images may lie outside their folder
  bool per_class = false;            // for a detector, also reports the metrics of each class
  MetricOptions metric_options;
};

// How a report lists labels that the model contradicts (data/evaluation/label_errors.h).
struct LabelErrorOptions {
  std::string folder = {};       // for their list, and labels with the model's corrections; if empty, none
  std::string form = "coco";     // the format of these labels
  double least_suspicion = 0.5;  // lowest suspicion that is listed
  bool operator==(const LabelErrorOptions&) const = default;
  std::string given_flags() const {  // "--label-errors, --to"; "" if all have their defaults
    const LabelErrorOptions none;
    return saccade::given_flags({{"--label-errors", !folder.empty()},
                                 {"--to", form != none.form},
                                 {"--suspicion", least_suspicion != none.least_suspicion}});
  }
};

// The arguments for videos.
struct VideoArguments {
  int64_t every = 1;       // one of this many frames is processed
  int64_t max_frames = 0;  // most frames to process; 0: all
  bool track = false;      // whether detections of one object share a number
  TrackerOptions tracking;
};
inline constexpr const char* kMot = "mot";  // a value of `to`: tracks in the format of the MOT challenge

struct PredictArguments {
  std::string checkpoint, output, device = "auto";
  std::vector<std::string> images;  // files, folders of images, or patterns (*.jpg); videos, cameras, streams
  std::string list;                 // a file that lists more of them, one per line
  std::string precision;            // if empty, the configuration's
  std::vector<std::string> set;     // edits of fields that affect inference
  int64_t batch_size = 1;           // images at a time
  int64_t image_size = 0;           // 0: the evaluation size of the configuration
  std::optional<double> threshold;  // lowest score of boxes; 0.5 if unset
  std::vector<std::string> classes;  // names or category ids; if empty, all
  int64_t max = 0;                   // most detections of an image, the best by score; 0: the configuration's
  bool sampling_points = false;
  std::string to;              // also writes the detections as labels of this format, or kMot; if empty, not
  bool pictures = true;        // whether pictures are drawn
  std::string format = "png";  // of the pictures
  DrawStyle style = {};
  bool crop = false;           // also writes each object as a picture of its own
  bool recursive = false;      // also searches the folders within folders
  int64_t tile = 0;            // side in pixels of the tiles into which an image is cut; 0: not cut
  double tile_overlap = 0.25;  // least share of a side that neighbouring tiles have in common
  VideoArguments video;

  bool wants_labels() const { return !to.empty() && to != kMot; }
  // The flags that say how pictures are drawn, and whether they are given.
  std::vector<std::pair<const char*, bool>> flags_of_drawing() const {
    return {{"--sampling-points", sampling_points},
            {"--picture-format", format != "png"},
            {"--line-width", style.line_width.has_value()},
            {"--letter-size", style.letter_size.has_value()}};
  }
  // The flags that have no meaning for models without objects, and whether they are given.
  std::vector<std::pair<const char*, bool>> flags_of_objects() const {
    std::vector<std::pair<const char*, bool>> flags = flags_of_drawing();
    flags.insert(flags.end(), {{"--classes", !classes.empty()},
                               {"--max", max > 0},
                               {"--no-pictures", !pictures},
                               {"--crop", crop},
                               {"--track", video.track}});
    return flags;
  }
};

}  // namespace saccade
