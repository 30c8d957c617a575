// The commands `saccade predict` and `saccade serve`.
#include <fmt/ranges.h>

#include "data/labels/label_forms.h"
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

void define_predict(CLI::App* c, PredictArguments* a) {
  required(c, "--checkpoint", a->checkpoint, "FILE", "a checkpoint that train wrote");
  required(c, "--output", a->output, "DIR",
           "folder for the pictures and detections.json or predictions.json");
  option(c, "--threshold", a->threshold, "T", "lowest score that is drawn (default 0.5)")->check(real(0, 1));
  add_classes(c, a->classes, "keep only these classes, by name or category id");
  option(c, "--max", a->max, "N", "keep at most N detections per image, those with the best scores")
      ->check(at_least(1));
  c->add_flag("--sampling-points", a->sampling_points, "also draw the sampling points of the attention");
  c->add_flag("--crop", a->crop,
              "also save a crop of every object in DIR/crops, cut along its mask if it has one");
  option(c, "--to", a->to, "FORMAT",
         fmt::format("also write the detections as labels, with an entry for every image, to DIR/FORMAT: {}; "
                     "for videos: {}",
                     fmt::join(label_forms().names(), ", "), kMot)
             .c_str())
      ->check(one_of([] {
        std::vector<std::string> names = label_forms().names();
        names.push_back(kMot);
        return names;
      }()));
  c->add_flag_callback(
      "--no-pictures", [a] { a->pictures = false; }, "do not draw pictures or videos");
  option(c, "--picture-format", a->format, "NAME", "format of the pictures: png (default) or jpg")
      ->check(one_of({"png", "jpg"}));
  option(c, "--line-width", a->style.line_width, "PIXELS",
         "line width of the boxes (default: grows with the picture)")
      ->check(whole(1, 100));
  option(c, "--letter-size", a->style.letter_size, "PIXELS",
         "letter size of names and scores; 0 for none (default: grows with the picture)")
      ->check(number<int64_t>("0, or a whole number from 6 to 400",
                              [](int64_t n) { return n == 0 || (n >= 6 && n <= 400); }));
  option(c, "--every", a->video.every, "N", "process every N-th frame of videos (default 1)")
      ->check(at_least(1));
  option(c, "--max-frames", a->video.max_frames, "N", "process at most N frames of a video")
      ->check(at_least(1));
  c->add_flag("--track", a->video.track, "track objects through videos (ByteTrack): adds track_id");
  TrackerOptions& tracking = a->video.tracking;
  option(c, "--track-threshold", tracking.high, "T",
         "detections with scores of at least T are matched first (default 0.5)")
      ->check(real(0, 1))
      ->needs("--track");
  option(c, "--track-new", tracking.begin, "T",
         "lowest score that starts a new track (default: --track-threshold + 0.1)")
      ->check(real(0, 1))
      ->needs("--track");
  option(c, "--track-match", tracking.match, "D",
         "largest distance, 1 - IoU x score, between a track and its next detection (default 0.8)")
      ->check(real(0, 1))
      ->needs("--track");
  option(c, "--track-buffer", tracking.buffer, "N", "keep a lost track for N frames (default 30)")
      ->check(whole(0, 1'000'000))
      ->needs("--track");
  c->add_flag("--recursive", a->recursive, "also search sub-folders");
  option(c, "--tile", a->tile, "PIXELS",
         "process large images in overlapping tiles with this side, and once as a whole")
      ->check(at_least(16));
  option(c, "--tile-overlap", a->tile_overlap, "FRACTION",
         "overlap of neighbouring tiles, as a fraction of their side (default 0.25)")
      ->check(real(0, 0.9))
      ->needs("--tile");
  add_device(c, a->device);
  add_precision(c, a->precision);
  add_inference_set(c, a->set);
  add_image_size(c, a->image_size, "image size, as for train --image-size (default: as in training)");
  option(c, "--list", a->list, "FILE", "also process the images listed in this file, one per line");
  add_batch_size(c, a->batch_size, "batch size (default 1); images of different sizes may be padded");
  positional(c, "IMAGE", a->images,
             "image files, folders of images, patterns ('shots/*.jpg'), - for the standard input; videos, "
             "cameras (camera:0), streams (rtsp://...)",
             false);
  c->footer(
      "Examples:\n"
      "  saccade predict --checkpoint best.safetensors --output pictures photo.jpg more_photos/\n"
      "  saccade predict --checkpoint best.safetensors --output pictures --list names.txt --batch-size 8\n"
      "  saccade predict --checkpoint best.safetensors --output guesses --to labelstudio --no-pictures "
      "photos/\n"
      "  saccade predict --checkpoint best.safetensors --output tracked --track street.mp4");
}

void define_serve(CLI::App* c, ServeArguments* a) {
  required(c, "CKPT", a->checkpoint, "FILE", "a checkpoint that train wrote");
  option(c, "--port", a->port, "N", "port to listen on (default 8080); 0 for a free one, which is printed")
      ->check(whole(0, 65535));
  option(c, "--host", a->host, "ADDRESS",
         "address to listen on (default 127.0.0.1, only this machine; 0.0.0.0 for everyone)")
      ->check(not_empty());
  option(c, "--threshold", a->threshold, "T", "lowest score, unless a request sets its own (default 0.5)")
      ->check(real(0, 1));
  option(c, "--max-batch", a->max_batch, "N", "largest number of images in a batch (default 8)")
      ->check(batch_sizes());
  option(c, "--queue", a->queue, "N",
         "number of requests that may wait or be processed (default 64); others get status 503")
      ->check(whole(1, 65536));
  option(c, "--max-bytes", a->max_bytes, "N", "largest request in bytes (default 20971520)")
      ->check(whole(1, int64_t{1} << 30));
  option(c, "--max-pixels", a->max_pixels, "N", "largest image, in height times width (default 50000000)")
      ->check(at_least(1));
  option(c, "--timeout", a->timeout, "SECONDS",
         "time limit to send a request, and to receive its answer (default 30)")
      ->check(real(0.1, 86400));
  add_device(c, a->device);
  add_precision(c, a->precision);
  add_inference_set(c, a->set);
  add_image_size(c, a->image_size, "image size, as for train --image-size (default: as in training)");
  c->footer(
      "Examples:\n"
      "  saccade serve best.safetensors\n"
      "  curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg http://127.0.0.1:8080/predict\n"
      "  curl -F file=@photo.jpg 'http://127.0.0.1:8080/predict?format=png' > drawn.png");
}

}  // namespace saccade
