// The statistics of a service, in Prometheus's text format.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Counts of values up to bounds, which are written cumulatively.
class MetricHistogram {
 public:
  explicit MetricHistogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size()) {}
  void add(double value);
  std::string text(std::string_view name) const;
  int64_t count() const { return count_; }

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // of values up to each bound and above the previous one
  int64_t count_ = 0;
  double sum_ = 0;
};

// Safe for any threads.
class ServeMetrics {
 public:
  void add_request(int status);
  void add_answer(double seconds);  // of an image, from its complete request to its answer
  void add_batch(size_t images, double seconds);
  int64_t requests() const;
  int64_t images() const;
  // places: how many requests are being served or wait; most: how many may
  std::string text(size_t waiting, size_t places, size_t most) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, int64_t> requests_;  // by status
  int64_t images_ = 0;
  MetricHistogram answers_{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}};
  MetricHistogram batches_{{1, 2, 4, 8, 16, 32, 64}};
  MetricHistogram computing_{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}};
};

}  // namespace saccade
