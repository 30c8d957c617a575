#include "train/serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace saccade {
namespace {

std::string metric_head(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string gauge(std::string_view name, std::string_view help, size_t value) {
  return fmt::format("{}{} {}\n", metric_head(name, "gauge", help), name, value);
}

}  // namespace

void MetricHistogram::add(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  if (bound != bounds_.end()) ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  ++count_;
  sum_ += value;
}

std::string MetricHistogram::text(std::string_view name) const {
  std::string out;
  int64_t sum = 0;
  for (size_t i = 0; i < bounds_.size(); ++i)
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bounds_[i], sum += counts_[i]);
  return out + fmt::format("{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, count_, name, sum_,
                           name, count_);
}

void ServeMetrics::add_request(int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[status];
}

void ServeMetrics::add_answer(double seconds) {
  const std::lock_guard lock(mutex_);
  answers_.add(seconds);
}

void ServeMetrics::add_batch(size_t images, double seconds) {
  const std::lock_guard lock(mutex_);
  images_ += static_cast<int64_t>(images);
  batches_.add(static_cast<double>(images));
  computing_.add(seconds);
}

int64_t ServeMetrics::requests() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [status, count] : requests_) sum += count;
  return sum;
}

int64_t ServeMetrics::images() const {
  const std::lock_guard lock(mutex_);
  return images_;
}

std::string ServeMetrics::text(size_t waiting, size_t places, size_t most) const {
  const std::lock_guard lock(mutex_);
  std::string out = metric_head("saccade_requests_total", "counter", "Requests that were answered.");
  for (const auto& [status, count] : requests_)
    out += fmt::format("saccade_requests_total{{status=\"{}\"}} {}\n", status, count);
  out += metric_head("saccade_images_total", "counter", "Images that the model has processed.");
  out += fmt::format("saccade_images_total {}\n", images_);
  out += gauge("saccade_queue_waiting", "Images waiting for the model.", waiting);
  out += gauge("saccade_queue_places_taken", "Requests received completely and not yet answered.", places);
  out += gauge("saccade_queue_places", "Limit of saccade_queue_places_taken.", most);
  out += metric_head("saccade_batch_size", "histogram", "Images per batch.");
  out += batches_.text("saccade_batch_size");
  out += metric_head("saccade_batch_seconds", "histogram", "Time the model takes for a batch.");
  out += computing_.text("saccade_batch_seconds");
  out += metric_head("saccade_answer_seconds", "histogram",
                     "Time from receiving the whole request to answering it.");
  out += answers_.text("saccade_answer_seconds");
  return out;
}

}  // namespace saccade
