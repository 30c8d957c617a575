#include "train/serve/image_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <ranges>
#include <utility>

#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/runtime/cpu/processors.h"
#include "core/tensor/error.h"
#include "data/pages/html.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

constexpr std::string_view kWelcome =
#include "train/serve/welcome_page.html.inc"
    ;

// The page that a browser shows for the service: how to use it, and a form to try it.
std::string welcome_page(const std::string& model, const std::vector<std::string>& classes,
                         const std::vector<std::string>& picture_formats) {
  Html buttons = html("<button formaction=\"/predict?format=json\">JSON</button>"), formats, names;
  for (const std::string& format : picture_formats) {
    buttons += html(" <button formaction=\"/predict?format={}\">{}</button>", format, format);
    formats += html(", {}", format);
  }
  constexpr size_t kShown = 100;
  for (size_t k = 0; k < std::min(classes.size(), kShown); ++k)
    names += html("{}{}", k ? ", " : "", classes[k]);
  if (classes.size() > kShown) names += html(" and {} more", classes.size() - kShown);
  return fmt::format(fmt::runtime(kWelcome), fmt::arg("model", html_escaped(model)),
                     fmt::arg("classes", names.code), fmt::arg("buttons", buttons.code),
                     fmt::arg("formats", formats.code));
}

// Returns the status and the message of the current exception.
HttpError current_http_error() {
  try {
    throw;
  } catch (const HttpError& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {500, "out of memory"};
  } catch (const std::exception& error) {
    return {500, error.what()};
  }
}

double seconds_since(ImageService::Clock::time_point begin) {
  return std::chrono::duration<double>(ImageService::Clock::now() - begin).count();
}

struct Route {
  std::string_view path, methods;
};
constexpr Route kRoutes[] = {
    {"/", "GET, HEAD"}, {"/health", "GET, HEAD"}, {"/metrics", "GET, HEAD"}, {"/predict", "POST"}};

// Images of the same kind have the same size in each view, so that a batch contains no padding and gives the
// same numbers as each image alone.
std::string kind_of(const std::vector<SizedImage>& views) {
  std::string kind;
  for (const SizedImage& view : views) {
    const Sample& s = view.sample;
    kind += fmt::format("{} {} {} {};", s.image.height, s.image.width, s.canvas_height, s.canvas_width);
  }
  return kind;
}

}  // namespace

ImageService::ImageService(const LoadedModel& model, Answerer& answerer, ServiceOptions options)
    : model_(model), answerer_(answerer), options_(std::move(options)) {
  answerer_.check({.threshold = options_.threshold});
  for (const Config& view : answerer_.views()) to_sizes_.push_back(eval_augment(view));
  workers_ = std::make_unique<Workers>(std::clamp(available_processors(), 2, 8));
}

ImageService::~ImageService() { drain(); }

void ImageService::drain() {
  workers_.reset();
  while (!queue_.take(SIZE_MAX, std::chrono::milliseconds(0)).empty()) {
  }
}

std::optional<ServiceAnswer> ImageService::refuse(const ServiceRequest& head) {
  try {
    const HttpTarget target = parse_target(head.target);
    const Route* route = std::ranges::find(kRoutes, target.path, &Route::path);
    if (route == std::end(kRoutes))
      throw HttpError(404, fmt::format("{}: not found, expected one of {}", target.path,
                                       fmt::join(kRoutes | std::views::transform(&Route::path), ", ")));
    if (std::ranges::search(route->methods, head.method).empty()) {
      ServiceAnswer answer =
          error_answer(405, fmt::format("{} {}: expected {}", head.method, target.path, route->methods));
      answer.headers.emplace_back("Allow", route->methods);
      return answer;
    }
    if (target.path == "/predict") {
      check_content(head);
      if (places_ >= options_.queue) return busy_answer("the queue is full");
    }
    return std::nullopt;
  } catch (const HttpError& error) {
    return error_answer(error.status(), error.what());
  }
}

void ImageService::handle(ServiceRequest request, std::function<void(ServiceAnswer)> done) {
  const std::string path = parse_target(request.target).path;  // refuse() has checked it
  if (path != "/predict") return done(page(path));
  if (places_++ >= options_.queue) {
    --places_;
    return done(busy_answer("the queue is full"));
  }
  auto job = std::make_shared<Job>();
  job->is_gone = request.is_gone;
  job->done = std::move(done);
  job->begin = Clock::now();
  workers_->run([this, job, shared = std::make_shared<ServiceRequest>(std::move(request))] {
    try {
      decode(job, std::move(*shared));
      queue_.push(kind_of(job->views), job);
    } catch (...) {
      const HttpError error = current_http_error();
      finish(*job, error_answer(error.status(), error.what()));
    }
  });
}

ServiceAnswer ImageService::page(const std::string& path) const {
  if (path == "/health") return health();
  if (path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8",
            .body = metrics_.text(queue_.size(), places_, options_.queue)};
  return {.type = "text/html; charset=utf-8",
          .body = welcome_page(std::filesystem::path(options_.checkpoint).filename().string(),
                               model_.class_names, answerer_.picture_formats())};
}

ServiceAnswer ImageService::health() const {
  std::string classes;
  for (const std::string& name : model_.class_names)
    classes += (classes.empty() ? "" : ", ") + json_quote(name);
  const bool is_failing = is_failing_;
  return {.status = is_failing ? 503 : 200,
          .body = fmt::format(
              "{{\"status\": \"{}\", \"model\": {}, \"type\": {}, \"task\": {}, \"classes\": [{}], "
              "\"queue\": {{\"waiting\": {}, \"places_taken\": {}, \"places\": {}}}}}\n",
              is_failing ? "failing" : "ok",
              json_quote(std::filesystem::path(options_.checkpoint).filename().string()),
              json_quote(model_.config.model().type()), json_quote(task_name(model_.config)), classes,
              queue_.size(), places_.load(), options_.queue)};
}

void ImageService::decode(const JobPointer& job, ServiceRequest request) {
  constexpr const char* kName = "the image";
  const std::string target = printable(request.target);
  job->request = image_request(std::move(request), answerer_.picture_formats());
  const std::string& bytes = job->request.bytes;
  const std::span<const uint8_t> data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  try {
    answerer_.check(job->request.options);
    const ImageSize size = inspect_image(data, kName).size;
    if (size.height * size.width > options_.max_pixels)
      throw HttpError(413, fmt::format("{}: {} x {} pixels, expected at most {} in all", kName, size.width,
                                       size.height, options_.max_pixels));
    job->image = decode_image(data, kName, &job->is_first_of_several, &job->damage);
  } catch (const InputError& error) {
    throw HttpError(400, error.what());
  }
  if (!job->damage.empty()) print_note(fmt::format("warning: POST {}: {}", target, job->damage));
  if (!job->request.options.threshold) job->request.options.threshold = options_.threshold;
  job->size = {job->image.height, job->image.width};
  for (const Augmentation& to_size : to_sizes_) job->views.push_back(sized_image(job->image, kName, to_size));
  job->request.bytes = {};
  if (job->request.format == "json") job->image = {};
}

void ImageService::warm_up() {
  const ImageSize size = eval_size(model_.config);
  auto job = std::make_shared<Job>();
  for (const Augmentation& to_size : to_sizes_)
    job->views.push_back(sized_image(Image(size.height, size.width), "a black image", to_size));
  find({job});
}

void ImageService::compute(std::chrono::milliseconds patience) {
  std::vector<JobPointer> jobs = queue_.take(options_.max_batch, patience);
  std::erase_if(jobs, [&](const JobPointer& job) {
    if (!*job->is_gone) return false;
    finish(*job, error_answer(499, "the client has disconnected"));
    return true;
  });
  if (!jobs.empty()) run(jobs);
}

void ImageService::run(const std::vector<JobPointer>& jobs) {
  const Clock::time_point begin = Clock::now();
  std::vector<std::shared_ptr<const Finding>> found;
  try {
    found = find(jobs);
  } catch (...) {
    // One image may be at fault, or the memory suffices for single images.
    if (jobs.size() > 1) {
      for (const JobPointer& job : jobs) run({job});
      return;
    }
    const HttpError error = current_http_error();
    is_failing_ = true;
    print_error(error.what());
    return finish(*jobs.front(), error_answer(500, error.what()));
  }
  is_failing_ = false;
  metrics_.add_batch(jobs.size(), seconds_since(begin));
  for (size_t i = 0; i < jobs.size(); ++i)
    workers_->run([this, job = jobs[i], finding = found[i]] {
      try {
        finish(*job, answer(*job, *finding));
      } catch (...) {
        const HttpError error = current_http_error();
        finish(*job, error_answer(error.status(), error.what()));
      }
    });
}

std::vector<std::shared_ptr<const Finding>> ImageService::find(const std::vector<JobPointer>& jobs) {
  const std::span<const Config> configs = answerer_.views();
  std::vector<Batch> batches;
  for (size_t v = 0; v < configs.size(); ++v) {
    std::vector<SizedImage> images;
    for (const JobPointer& job : jobs) images.push_back(job->views[v]);
    batches.push_back(batch_of(std::move(images), configs[v]));
  }
  std::vector<std::shared_ptr<const Finding>> found;
  with_model_of(options_.checkpoint, eval_size(model_.config), "--max-batch, --image-size",
                [&] { found = answerer_.run(batches); });
  return found;
}

ServiceAnswer ImageService::answer(Job& job, const Finding& found) const {
  const ImageRequest& wanted = job.request;
  if (wanted.format != "json") {
    const AnswerFile file = found.picture(std::move(job.image), wanted.format, wanted.options);
    return {.type = file.type, .body = std::string(file.bytes.begin(), file.bytes.end())};
  }
  std::string image = fmt::format("\"width\": {}, \"height\": {}", job.size.width, job.size.height);
  if (job.is_first_of_several) image += ", \"first_of_several\": true";
  if (!job.damage.empty()) image += ", \"damage\": " + json_quote(job.damage);
  return {.body = fmt::format("{{\"image\": {{{}}}, {}}}\n", image, found.json(wanted.options))};
}

void ImageService::finish(Job& job, ServiceAnswer answer) {
  if (answer.status == 200) metrics_.add_answer(seconds_since(job.begin));
  --places_;
  job.done(std::move(answer));
}

}  // namespace saccade
