// saccade serve: serves the predictions of a checkpoint over HTTP (docs/serve.md).
#include <chrono>

#include "core/files/text.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/config/options.h"
#include "train/config/recipes.h"
#include "train/config/task.h"
#include "train/inference/device_choice.h"
#include "train/inference/evaluation.h"
#include "train/logs/print.h"
#include "train/serve/http_server.h"
#include "train/serve/image_service.h"

namespace saccade {
namespace {

// Flushes: whoever started the program may wait for the line.
void print_at_once(const std::string& line) {
  print_line(std::string_view(line));
  if (const std::string problem = stdout_problem(); !problem.empty())
    fail("cannot write to the standard output: {}", problem);
}

}  // namespace

int run_serve(const ServeArguments& arguments) {
  using std::chrono::milliseconds;
  const DeviceChoice choice = choose_device(arguments.device);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device, arguments.precision,
                                         arguments.set, arguments.image_size);
  for (const std::string& note : notes_without_data(arguments.set)) print_line(note);
  for (const std::string& note : model.notes) print_line(note);
  const std::unique_ptr<Answerer> answerer = task_of(model.config).answerer(model);
  EvaluationMode mode(*model.module, precision_of(model.config));
  ImageService service(model, *answerer,
                       {.checkpoint = arguments.checkpoint,
                        .threshold = arguments.threshold,
                        .max_batch = static_cast<size_t>(arguments.max_batch),
                        .queue = static_cast<size_t>(arguments.queue),
                        .max_pixels = arguments.max_pixels});
  HttpServer server({.host = arguments.host,
                     .port = static_cast<uint16_t>(arguments.port),
                     .max_bytes = static_cast<uint64_t>(arguments.max_bytes),
                     .timeout = milliseconds(static_cast<int64_t>(arguments.timeout * 1000))},
                    service);
  service.warm_up();
  const InterruptScope signals;
  if (!choice.notice.empty()) print_line(choice.notice);
  if (!server.is_loopback())
    print_line("note: --host {}: anyone who can reach this address can use the service; it has no passwords",
               arguments.host);
  server.start();
  print_at_once(fmt::format("{}: {} of {} at http://{}/", arguments.checkpoint, task_name(model.config),
                            count_of(std::ssize(model.class_names), "class", "classes"), server.address()));
  while (interrupt_signal() == 0) service.compute(milliseconds(100));
  server.stop();
  // Clients being served still get an answer; the server's time limits end whatever takes too long.
  do service.compute(milliseconds(20));
  while (server.connections() > 0);
  print_line("stopped by {}: {}, {}", signal_name(interrupt_signal()),
             count_of(static_cast<int64_t>(service.metrics().requests()), "request", "requests"),
             count_of(static_cast<int64_t>(service.metrics().images()), "image", "images"));
  return 0;
}

}  // namespace saccade
