// The command `saccade predict`.
#include <fmt/ranges.h>

#include "data/labels/label_forms.h"
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

void add_predict_command(CLI::App& app, Action& action) {
  auto [c, a] = add_command(app, action, "predict",
                            "draw the detections of a checkpoint on images and videos, or name their classes",
                            run_predict);
  required(c, "--checkpoint", a->checkpoint, "FILE", "a checkpoint that train wrote");
  required(c, "--output", a->output, "DIR",
           "folder for the pictures and detections.json, or predictions.json");
  option(c, "--threshold", a->threshold, "T", "smallest score that is drawn (default 0.5)")
      ->check(between_0_and_1());
  add_classes(c, a->classes, "only these classes, by name or category id");
  option(c, "--max", a->max, "N", "at most so many detections an image, the best by score")
      ->check(at_least(1));
  c->add_flag("--sampling-points", a->sampling_points, "also draw where the attention looked");
  c->add_flag("--crop", a->crop,
              "also cut every object out, along its mask where it has one, into DIR/crops");
  option(c, "--to", a->to, "FORMAT",
         fmt::format("the detections as labels too, with every image, in DIR/FORMAT: {}; of videos: {}",
                     fmt::join(label_forms().names(), ", "), kMot)
             .c_str())
      ->check(CLI::IsMember([] {
        std::vector<std::string> names = label_forms().names();
        names.push_back(kMot);
        return names;
      }()));
  c->add_flag_callback(
      "--no-pictures", [a] { a->pictures = false; }, "draw no pictures and videos");
  option(c, "--picture-format", a->format, "NAME", "of the pictures: png (default) or jpg")
      ->check(CLI::IsMember({"png", "jpg"}));
  option(c, "--line-width", a->style.line_width, "PIXELS", "of the boxes (default: as the picture is large)")
      ->check(number<int64_t>("a whole number from 1 to 100", [](int64_t n) { return n >= 1 && n <= 100; }));
  option(c, "--letter-size", a->style.letter_size, "PIXELS",
         "of names and scores; 0: none (default: as the picture is large)")
      ->check(number<int64_t>("0, or a whole number from 6 to 400",
                              [](int64_t n) { return n == 0 || (n >= 6 && n <= 400); }));
  option(c, "--every", a->video.every, "N", "of videos, look at every N-th frame (default 1)")
      ->check(at_least(1));
  option(c, "--max-frames", a->video.max_frames, "N", "of a video, look at no more frames")
      ->check(at_least(1));
  c->add_flag("--track", a->video.track,
              "of videos, give the detections of one object one number (ByteTrack)");
  TrackerOptions& tracking = a->video.tracking;
  option(c, "--track-threshold", tracking.high, "T",
         "scores of at least T count first; one begins a track 0.1 above it (default 0.5)")
      ->check(between_0_and_1())
      ->needs("--track");
  option(c, "--track-match", tracking.match, "D",
         "greatest distance, 1 - IoU x score, of a track and what continues it (default 0.8)")
      ->check(between_0_and_1())
      ->needs("--track");
  option(c, "--track-buffer", tracking.buffer, "N",
         "frames for which a lost object is remembered (default 30)")
      ->check(number<int64_t>("a whole number from 0 to 1000000",
                              [](int64_t n) { return n >= 0 && n <= 1'000'000; }))
      ->needs("--track");
  c->add_flag("--recursive", a->recursive, "also take the folders in folders");
  option(c, "--tile", a->tile, "PIXELS",
         "see large images in overlapping tiles of this side, and once as a whole")
      ->check(at_least(16));
  option(c, "--tile-overlap", a->tile_overlap, "SHARE",
         "what neighbouring tiles have in common, of their side (default 0.25)")
      ->check(number<double>("a number from 0 to 0.9", [](double s) { return s >= 0 && s <= 0.9; }))
      ->needs("--tile");
  add_device(c, a->device);
  add_precision(c, a->precision);
  add_inference_set(c, a->set);
  add_image_size(c, a->image_size,
                 "side of the images as train --image-size takes it (default: as in training)");
  option(c, "--list", a->list, "FILE", "take the images that this file lists too, one a line");
  add_batch_size(c, a->batch_size, "images at a time (default 1); those of several sizes may be padded");
  c->add_option(
       "IMAGE", a->images,
       "image files, folders of images, patterns ('shots/*.jpg'), or - for the standard input; videos, "
       "cameras (camera:0), streams (rtsp://...)")
      ->check(not_empty());
  c->footer(
      "Examples:\n"
      "  saccade predict --checkpoint best.safetensors --output pictures photo.jpg more_photos/\n"
      "  saccade predict --checkpoint best.safetensors --output pictures --list names.txt --batch-size 8\n"
      "  saccade predict --checkpoint best.safetensors --output guesses --to labelstudio --no-pictures photos/\n"
      "  saccade predict --checkpoint best.safetensors --output followed --track street.mp4");
}

}  // namespace saccade
