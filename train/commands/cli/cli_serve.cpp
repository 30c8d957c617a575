// The command `saccade serve`.
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

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
