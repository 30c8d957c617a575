#include "train/logs/run_log.h"

#include <simdjson.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/formats/file.h"
#include "core/formats/json.h"
#include "core/formats/output_file.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

// The lines of a log that belong to a run at `step`; a half-written last line does not.
std::string lines_until(std::string_view text, int64_t step) {
  std::string kept;
  simdjson::dom::parser parser;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    simdjson::dom::object object;
    int64_t at = 0;
    bool early = false;
    if (parser.parse(line).get(object) != simdjson::SUCCESS || object["step"].get(at) != simdjson::SUCCESS)
      continue;
    if (object["early_stop"].get(early) != simdjson::SUCCESS) early = false;
    if (at <= step && !early) kept += std::string(line) + "\n";
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::string& folder, int64_t resume_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_input("{}: cannot create the run folder: {}", folder, error.message());
  path_ = (std::filesystem::path(folder) / "metrics.jsonl").string();
  if (resume_step >= 0 && std::filesystem::exists(path_)) {
    std::vector<uint8_t> bytes = read_file(path_, kLogFile);
    write_file(path_, lines_until({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, resume_step));
  }
  file_.open(path_, resume_step >= 0 ? std::ios::app : std::ios::trunc);
  if (!file_) fail_input("{}: cannot write: {}", path_, std::strerror(errno));
  events_ = std::make_unique<EventWriter>(folder);
}

void RunLog::record(const std::string& type, int64_t step, const Metrics& values, bool early_stop) {
  std::string line = fmt::format("{{\"type\": {}, \"step\": {}", json_quote(type), step);
  Metrics scalars;
  for (const auto& [name, number] : values) {
    line +=
        fmt::format(", {}: {}", json_quote(name), std::isfinite(number) ? fmt::format("{}", number) : "null");
    scalars.emplace_back(type + "/" + name, number);
  }
  if (early_stop) line += ", \"early_stop\": true";
  line += "}\n";
  if (!(file_ << line << std::flush)) fail("{}: cannot write: {}", path_, std::strerror(errno));
  events_->scalars(step, scalars);
}

}  // namespace saccade
