// The service behind `saccade serve`: images are decoded alongside the model and wait in a queue; those of
// one size that are there go through the model together, with the same numbers as one alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/augment/augment.h"
#include "train/checkpoints/load_model.h"
#include "train/inference/answerer.h"
#include "train/inference/picture_files.h"
#include "train/serve/batch_queue.h"
#include "train/serve/http.h"
#include "train/serve/image_request.h"
#include "train/serve/metrics.h"

namespace saccade {

// Threads that run tasks: images are decoded and answers written alongside the model's work.
class Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  // Runs all tasks that were given before it ends.
  ~Workers() {
    for (size_t i = 0; i < threads_.size(); ++i) tasks_.push("", {});
    for (std::thread& thread : threads_) thread.join();
  }
  Workers& operator=(Workers&&) = delete;

  void run(std::function<void()> task) { tasks_.push("", std::move(task)); }  // which must not throw

 private:
  void work() {
    for (;;)
      for (const std::function<void()>& task : tasks_.take(1, std::chrono::hours(1))) {
        if (!task) return;
        task();
      }
  }

  BatchQueue<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
};

struct ServiceOptions {
  std::string checkpoint;           // its path, for messages and /health
  std::optional<double> threshold;  // for requests that name none
  size_t max_batch = 8;             // most images that are computed together
  size_t queue = 64;                // most requests with an image that were read and not yet answered
  int64_t max_pixels = 50'000'000;  // of an image
};

class ImageService final : public HttpHandler {
 public:
  using Clock = std::chrono::steady_clock;

  // Refers to the model and its answerer. Throws InputError if the threshold does not fit the model.
  ImageService(const LoadedModel& model, Answerer& answerer, ServiceOptions options);
  ~ImageService() override;

  std::optional<ServiceAnswer> refuse(const ServiceRequest& head) override;
  void handle(ServiceRequest request, std::function<void(ServiceAnswer)> done) override;
  void count(int status) override { metrics_.add_request(status); }
  void drain() override;

  // Runs a black image through the model, so that it is ready for the first request. Throws what the model
  // throws.
  void warm_up();
  // Computes a batch, if one arrives within this time. Called by one thread, in evaluation mode; never throws
  // because of a request.
  void compute(std::chrono::milliseconds patience);
  const ServeMetrics& metrics() const { return metrics_; }

 private:
  struct Job {
    ImageRequest request;
    Image image;  // if a picture is wanted
    ImageSize size;
    bool is_first_of_several = false;
    std::string damage;  // of a file that was read in spite of it
    std::vector<SizedImage> views;
    std::shared_ptr<std::atomic<bool>> is_gone;
    std::function<void(ServiceAnswer)> done;
    Clock::time_point begin;
  };
  using JobPointer = std::shared_ptr<Job>;

  ServiceAnswer page(const std::string& path) const;
  ServiceAnswer health() const;
  void decode(const JobPointer& job, ServiceRequest request);
  void run(const std::vector<JobPointer>& jobs);
  std::vector<std::shared_ptr<const Finding>> find(const std::vector<JobPointer>& jobs);
  ServiceAnswer answer(Job& job, const Finding& found) const;
  void finish(Job& job, ServiceAnswer answer);

  const LoadedModel& model_;
  Answerer& answerer_;
  ServiceOptions options_;
  std::vector<Augmentation> to_sizes_;  // of each view
  ServeMetrics metrics_;
  std::atomic<size_t> places_{0};        // how many are taken
  std::atomic<bool> is_failing_{false};  // whether the last batch failed
  BatchQueue<JobPointer> queue_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace saccade
