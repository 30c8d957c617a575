#include "train/logs/run_log.h"

#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/files/descriptors.h"
#include "core/files/file.h"
#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

// The lines of a log up to a step of the run.
struct KeptLines {
  std::string text;
  std::vector<int64_t> early_steps;  // of evaluations that only an early stop caused
  int64_t damaged = 0;
  bool cut = false;  // the last line is incomplete
};

KeptLines lines_until(std::string_view text, int64_t step) {
  KeptLines kept;
  simdjson::dom::parser parser;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    kept.cut = end == std::string_view::npos;
    if (kept.cut) break;
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    simdjson::dom::object object;
    int64_t at = 0;
    bool early = false;
    if (parser.parse(line).get(object) != simdjson::SUCCESS || object["step"].get(at) != simdjson::SUCCESS) {
      ++kept.damaged;
      continue;
    }
    if (object["early_stop"].get(early) != simdjson::SUCCESS) early = false;
    if (early) kept.early_steps.push_back(at);
    if (at <= step && !early) kept.text.append(line).append("\n");
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::string& folder, int64_t resume_step) : start_step_(resume_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_input("{}: cannot create the run folder: {}", folder, error.message());
  path_ = (std::filesystem::path(folder) / "metrics.jsonl").string();
  if (resume_step >= 0) resume(resume_step, folder);
  file_ = open_descriptor(path_, O_WRONLY | O_CREAT | O_APPEND | (resume_step >= 0 ? 0 : O_TRUNC), 0644);
  if (file_ < 0) fail_input("{}: cannot write: {}", path_, std::strerror(errno));
  events_ = std::make_unique<EventWriter>(folder);
}

RunLog::~RunLog() {
  if (file_ >= 0) ::close(file_);
}

void RunLog::resume(int64_t step, const std::string& folder) {
  std::error_code error;
  KeptLines kept;
  if (std::filesystem::exists(path_, error)) {
    const std::vector<uint8_t> bytes = read_file(path_, kLogFile);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    kept = lines_until(text, step);
    if (kept.cut) notes_.push_back(path_ + ": its last line was cut off and is dropped");
    if (kept.damaged > 0)
      notes_.push_back(
          fmt::format("{}: {} damaged and dropped", path_, count_of(kept.damaged, "line is", "lines are")));
    if (text.substr(0, kept.text.size()) != kept.text) {
      OutputFile whole(path_, OutputFile::Sync::kYes);
      whole.write(kept.text.data(), kept.text.size());
      whole.commit();
    } else if (::truncate(path_.c_str(), static_cast<off_t>(kept.text.size())) != 0) {
      fail_input("{}: cannot write: {}", path_, std::strerror(errno));
    }
  }
  dropped_evaluation_ = std::count(kept.early_steps.begin(), kept.early_steps.end(), step) > 0;
  for (const std::string& note : cut_event_files(folder, step, kept.early_steps)) notes_.push_back(note);
}

void RunLog::record(const std::string& type, int64_t step, const Metrics& values, bool early_stop) {
  std::string line = fmt::format("{{\"type\": {}, \"step\": {}", json_quote(type), step);
  Metrics scalars;
  for (const auto& [name, number] : values) {
    line +=
        fmt::format(", {}: {}", json_quote(name), std::isfinite(number) ? fmt::format("{}", number) : "null");
    scalars.emplace_back(type + "/" + name, number);
  }
  if (start_step_ > 0) line += fmt::format(", \"start_step\": {}", start_step_);
  if (early_stop) line += ", \"early_stop\": true";
  line += "}\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t n = ::write(file_, rest.data(), rest.size());
    if (n < 0 && errno != EINTR) fail("{}: cannot write: {}", path_, std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  }
  events_->scalars(step, scalars);
}

void RunLog::sync() {
  if (::fsync(file_) != 0 && errno != EINVAL) fail("{}: cannot write: {}", path_, std::strerror(errno));
}

}  // namespace saccade
