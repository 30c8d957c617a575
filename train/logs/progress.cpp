#include "train/logs/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/files/text.h"
#include "train/logs/print.h"

namespace saccade {

namespace {

// Whether the terminal can rewrite a line; shells in editors and some CI systems call theirs dumb.
bool can_redraw(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(out)) == 1 && !(kind != nullptr && std::string_view(kind) == "dumb");
}

}  // namespace

Progress::Progress(std::FILE* out, double plain_seconds)
    : out_(out), terminal_(can_redraw(out)), interval_(terminal_ ? 0.2 : plain_seconds) {}

Progress::~Progress() { finish(); }

bool Progress::due() const {
  return last_.time_since_epoch().count() == 0 || seconds_since(last_) >= interval_;
}

void Progress::update(const std::string& line) {
  if (!due()) return;
  last_ = std::chrono::steady_clock::now();
  if (!terminal_) {
    write(escaped(line) + "\n");
  } else {
    winsize size{};
    size_t columns =
        ::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
    // A line that wraps could not be redrawn.
    write("\r\x1b[K" + escaped(line).substr(0, columns));
    drawn_ = true;
  }
}

void Progress::message(const std::string& line) {
  finish();
  write(escaped(line) + "\n");
}

void Progress::write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  if (out_ == stdout)
    stdout_problem();  // which records the reason
  else
    std::fflush(out_);
}

void Progress::finish() {
  if (!drawn_) return;
  write("\r\x1b[K");
  drawn_ = false;
}

void ProgressCounter::add(int64_t count) {
  std::lock_guard lock(mutex_);
  done_ += count;
  if (quiet_ || (total_ > 0 && done_ >= total_) || !line_.due()) return;
  double rate = static_cast<double>(done_) / std::max(seconds_since(start_), 1e-9);
  if (total_ == 0)
    return line_.update(fmt::format("{} {} {}, {:.1f} {}/s, {}", label_, done_, unit_, rate, unit_,
                                    format_bytes(resident_bytes())));
  line_.update(fmt::format("{} {}/{} {}, {:.1f} {}/s, {} left, {}", label_, done_, total_, unit_, rate, unit_,
                           format_duration(static_cast<double>(total_ - done_) / rate),
                           format_bytes(resident_bytes())));
}

void ProgressCounter::clear() {
  std::lock_guard lock(mutex_);
  line_.finish();
}

void ProgressCounter::message(const std::string& line) {
  std::lock_guard lock(mutex_);
  line_.message(line);
}

void ProgressCounter::finish() {
  std::lock_guard lock(mutex_);
  if (quiet_) return;
  double seconds = seconds_since(start_);
  const std::string unit = unit_.substr(0, unit_.size() - (done_ == 1 ? 1 : 0));  // "image"
  line_.message(fmt::format("{} {} {}, {:.1f} {}/s, {}", label_, done_, unit,
                            static_cast<double>(done_) / std::max(seconds, 1e-9), unit_,
                            format_duration(seconds)));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string format_duration(double seconds) {
  auto s = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::string format_bytes(int64_t bytes) {
  double mb = static_cast<double>(bytes) / 1e6;
  return mb < 1000 ? fmt::format("{:.0f} MB", mb) : fmt::format("{:.1f} GB", mb / 1000);
}

int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file) return 0;
  long total = 0, resident = 0;
  int fields = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return fields == 2 ? static_cast<int64_t>(resident) * ::sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace saccade
