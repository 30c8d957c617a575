#include "train/logs/item_progress.h"

#include <fmt/format.h>

namespace saccade {

ItemProgress::ItemProgress(std::string label, int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      start_(std::chrono::steady_clock::now()) {}

double ItemProgress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ItemProgress::update(int64_t done) {
  std::lock_guard lock(mutex_);
  if (done <= done_) return;
  done_ = done;
  if (done_ >= total_ || !line_.due()) return;
  double now = seconds(), rate = static_cast<double>(done_) / std::max(now, 1e-9);
  line_.update(fmt::format("{} {}/{} {}, {:.1f} {}/s, {} left, {}", label_, done_, total_, unit_, rate, unit_,
                           format_duration(static_cast<double>(total_ - done_) / rate),
                           format_bytes(resident_bytes())));
}

void ItemProgress::finish() {
  std::lock_guard lock(mutex_);
  double now = seconds();
  line_.message(fmt::format("{} {} {}, {:.1f} {}/s, {}", label_, done_, unit_,
                            static_cast<double>(done_) / std::max(now, 1e-9), unit_, format_duration(now)));
}

}  // namespace saccade
