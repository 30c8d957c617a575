#include "train/weights/fetch.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/formats/weights_file.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "train/logs/progress.h"
#include "train/weights/http.h"
#include "train/weights/part_file.h"

namespace saccade {
namespace {

// Returns the strong ETag, or the date: the values that If-Range takes.
std::string validator_of(const HttpAnswer& head) {
  const std::string tag = head.header("etag");
  return tag.starts_with('"') ? tag : head.header("last-modified");
}

// Where the bytes of a 206 answer begin, and how many there are in total; -1 if it does not say.
struct ContentRange {
  int64_t begin = -1, total = -1;
};
ContentRange content_range(const HttpAnswer& head) {
  ContentRange range;
  const std::string text = head.header("content-range");
  const char* end = text.data() + text.size();
  if (text.starts_with("bytes ")) std::from_chars(text.data() + 6, end, range.begin);
  if (const size_t slash = text.find('/'); slash != std::string::npos)
    std::from_chars(text.data() + slash + 1, end, range.total);
  return range;
}

// The SHA-256 that Hugging Face's server states in its redirection; empty if there is none.
std::string stated_sum(const HttpAnswer& head) {
  std::string tag = head.header("x-linked-etag");
  std::erase(tag, '"');
  return tag.size() == 64 && tag.find_first_not_of("0123456789abcdef") == std::string::npos ? tag : "";
}

bool is_web_page(const HttpAnswer& head, std::string_view bytes) {
  if (head.header("content-type").starts_with("text/html")) return true;
  const size_t at = bytes.find_first_not_of(" \t\r\n");
  const std::string begin = lower_case(std::string(bytes.substr(at == bytes.npos ? 0 : at, 9)));
  return begin == "<!doctype" || begin.starts_with("<html");
}

void pause(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    check_interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class Download {
 public:
  Download(const PublishedWeights& weights, const CachedWeights& cached, const FetchSettings& settings,
           bool quiet)
      : weights_(weights), cached_(cached), settings_(settings), quiet_(quiet) {
    part_.emplace(cached, weights.url());
    resumed_ = part_->size() > 0;
    if (resumed_) say(fmt::format("{}: {} already downloaded", weights.name(), megabytes(part_->size())));
  }

  void run() {
    fetch_whole();
    std::string sum = part_->sum(), fault = fault_of(sum);
    if (!fault.empty() && resumed_) {
      say(fmt::format("{}: assembled from parts, but {}; downloading all of it again", weights_.name(),
                      fault));
      start_anew();
      fetch_whole();
      sum = part_->sum();
      fault = fault_of(sum);
    }
    line_.finish();
    if (!fault.empty()) refuse(fmt::format("arrived complete, but {}; it was removed", fault));
    if (!weights_.has_sha256()) check_format();
    const bool known = weights_.has_sha256() || !cached_.recorded_sum().empty();
    cached_.record_sum(sum);
    part_->finish(cached_.path());
    say(fmt::format("{}: {} in {}, SHA-256 {} {}", weights_.name(), megabytes(part_->size()), cached_.path(),
                    sum,
                    known                 ? "as expected"
                    : stated_sum_.empty() ? "recorded at this first fetch"
                                          : "as the server states it, recorded at this first fetch"));
  }

 private:
  void say(const std::string& line) {
    if (!quiet_) line_.message(line);
  }
  // Ends with a fault that another try would meet again.
  [[noreturn]] void refuse(const std::string& what) {
    part_->remove();
    give_up(what);
  }
  [[noreturn]] void give_up(const std::string& what) const {
    fail("{}: {}; {}download the file elsewhere and put it at {}", without_passwords(weights_.url()), what,
         weights_.has_page() ? fmt::format("see {}, or ", without_passwords(weights_.page())) : "",
         cached_.path());
  }

  void start_anew() {
    part_->remove();
    part_.reset();
    part_.emplace(cached_, weights_.url());
    resumed_ = false;
  }

  // Repeats until the file is whole; gives up after settings_.tries tries in a row that brought little.
  void fetch_whole() {
    constexpr uint64_t kWorthWhile = uint64_t{1} << 20;
    for (int tries = 1;; ++tries) {
      const uint64_t before = part_->size();
      wait_ = 0;
      try {
        return fetch_once();
      } catch (const HttpFailure& failure) {
        line_.finish();
        const uint64_t now = part_->size();
        if (now >= before + kWorthWhile) tries = 1;
        if (tries >= settings_.tries || (!failure.may_pass() && now == 0)) {
          const std::string kept =
              now > 0 ? fmt::format(", after {} tries; {} are kept, and the next fetch continues from there",
                                    tries, progress(now))
              : tries > 1 ? fmt::format(", after {} tries", tries)
                          : "";
          give_up(one_line(failure.what()) + kept);
        }
        const double seconds = std::max(wait_, settings_.pause_seconds * std::exp2(tries - 1));
        say(fmt::format("{}: {}; try {} of {} in {:.0f} s", weights_.name(), one_line(failure.what()),
                        tries + 1, settings_.tries, seconds));
        pause(seconds);
        resumed_ = resumed_ || now > 0;
      }
    }
  }

  // Takes one answer, following redirections.
  void fetch_once() {
    constexpr int kMaxRedirects = 10;
    std::string url = weights_.url();
    for (int hops = 0;; ++hops) {
      begun_ = false;
      const HttpAnswer answer =
          http_get({url, part_->size(), part_->validator(), settings_.timeout_seconds},
                   [&](const HttpAnswer& head, std::string_view bytes) { return take(head, bytes); });
      if (const std::string sum = stated_sum(answer); !sum.empty()) stated_sum_ = sum;
      if (answer.redirect.empty()) return finish(answer);
      if (const std::string why = redirect_refusal(url, answer.redirect); !why.empty())
        give_up(
            fmt::format("is redirected to {}, {}", shortened(without_passwords(answer.redirect), 200), why));
      if (hops == kMaxRedirects) give_up(fmt::format("is redirected more than {} times", kMaxRedirects));
      url = answer.redirect;
    }
  }

  bool take(const HttpAnswer& head, std::string_view bytes) {
    if (head.status != 200 && head.status != 206) return true;  // its body is of no use
    if (!begun_) begin(head, bytes);
    const uint64_t most = part_->total() >= 0    ? static_cast<uint64_t>(part_->total())
                          : weights_.has_bytes() ? weights_.bytes()
                                                 : kWeightsFile.max_bytes;
    if (part_->size() + bytes.size() > most)
      refuse(fmt::format("sends more than the {} bytes of the file", most));
    part_->write(bytes);
    if (!quiet_ && seconds_since(start_) >= 1 && line_.due()) {
      const double rate =
          static_cast<double>(part_->size() - begun_at_) / std::max(seconds_since(start_), 1e-3);
      line_.update(fmt::format("{} {}, {}/s", weights_.name(), progress(part_->size()),
                               megabytes(static_cast<uint64_t>(rate))));
    }
    return true;
  }
  std::string progress(uint64_t bytes) const {
    return part_->total() < 0
               ? megabytes(bytes)
               : fmt::format("{} of {}", megabytes(bytes), megabytes(static_cast<uint64_t>(part_->total())));
  }

  // Called with the first bytes of the file's answer.
  void begin(const HttpAnswer& head, std::string_view bytes) {
    begun_ = true;
    const ContentRange range = content_range(head);
    const bool goes_on = head.status == 206;
    const int64_t total = goes_on ? range.total : head.number("content-length");
    const std::string tag = head.header("etag");
    if (goes_on && part_->size() == 0) give_up("sends a part of the file, although all of it was requested");
    if (goes_on &&
        (range.begin != static_cast<int64_t>(part_->size()) ||
         (part_->total() >= 0 && total >= 0 && part_->total() != total) ||
         (tag.starts_with('"') && part_->validator().starts_with('"') && tag != part_->validator()))) {
      start_anew();
      throw HttpFailure("the server continues with a different file", true);
    }
    if (!goes_on && is_web_page(head, bytes))
      refuse("sends a web page instead of the file (a login or proxy page?)");
    if (total >= 0 && weights_.has_bytes() && static_cast<uint64_t>(total) != weights_.bytes())
      refuse(fmt::format("has {} bytes, expected {}", total, weights_.bytes()));
    if (!goes_on) {
      if (part_->size() > 0)
        say(fmt::format("{}: has changed on the server, or the server sends no parts; starting again",
                        weights_.name()));
      part_->restart(validator_of(head), total);
      resumed_ = false;
    }
    check_space();
    begun_at_ = part_->size();
    start_ = std::chrono::steady_clock::now();
  }

  void check_space() const {
    std::error_code error;
    const auto folder = std::filesystem::path(cached_.path()).parent_path();
    const std::filesystem::space_info space = std::filesystem::space(folder, error);
    if (error || part_->total() < 0) return;
    const uint64_t needed =
        static_cast<uint64_t>(part_->total()) - std::min<uint64_t>(part_->size(), part_->total());
    if (needed > space.available)
      fail("{}: has {} free, but {} needs {}; set SACCADE_CACHE to another folder", folder.string(),
           megabytes(space.available), weights_.name(), megabytes(needed));
  }

  // Called at the end of an answer.
  void finish(const HttpAnswer& answer) {
    const int status = answer.status;
    if (status == 200 || status == 206) {
      if (!begun_) begin(answer, "");  // an empty body
      if (part_->total() >= 0 && part_->size() < static_cast<uint64_t>(part_->total()))
        throw HttpFailure("the connection ended before the file did", true);
      if (part_->size() == 0) refuse("is empty");
      return;
    }
    if (status == 416 && part_->size() > 0) {
      if (content_range(answer).total == static_cast<int64_t>(part_->size()) && part_->total() >= 0) return;
      start_anew();
      throw HttpFailure("the server has no more of the file than is already here", true);
    }
    if (status == 408 || status == 429 || status >= 500) {
      constexpr int64_t kLongestWait = 60;
      wait_ = static_cast<double>(std::clamp<int64_t>(answer.number("retry-after"), 0, kLongestWait));
      throw HttpFailure(
          fmt::format("the server {} ({})", status == 429 ? "asks to slow down" : "fails", status), true);
    }
    if (status == 404 || status == 410) give_up(fmt::format("the server has no such file ({})", status));
    if (status == 401 || status == 403) give_up(fmt::format("the server refuses to send it ({})", status));
    give_up(fmt::format("the server answers with status {}", status));
  }

  std::string fault_of(const std::string& sum) const {
    if (std::string fault = cached_.sum_fault(sum); !fault.empty()) return fault;
    if (!stated_sum_.empty() && stated_sum_ != sum)
      return fmt::format("its SHA-256 is {}, the server states {}", sum, stated_sum_);
    return "";
  }

  // For a file without a known checksum: checks whether it holds weights at all.
  void check_format() {
    std::string fault;
    try {
      const std::unique_ptr<WeightsFile> file = open_weights(cached_.part());
      file->verify();
      if (file->entries().empty()) fault = "holds no tensors";
    } catch (const InputError& error) {
      fault = error.what();
    }
    if (!fault.empty()) refuse(fmt::format("is not a weights file ({})", one_line(fault)));
  }

  const PublishedWeights& weights_;
  const CachedWeights& cached_;
  const FetchSettings& settings_;
  const bool quiet_;
  std::optional<PartFile> part_;
  std::string stated_sum_;  // stated by the server
  bool resumed_ = false;    // the file consists of parts from several answers
  bool begun_ = false;      // the body of this answer has begun
  uint64_t begun_at_ = 0;
  double wait_ = 0;  // that the server requests
  std::chrono::steady_clock::time_point start_{};
  Progress line_;
};

}  // namespace

void download(const PublishedWeights& weights, const CachedWeights& cached, const FetchSettings& settings,
              bool quiet) {
  Download(weights, cached, settings, quiet).run();
}

}  // namespace saccade
