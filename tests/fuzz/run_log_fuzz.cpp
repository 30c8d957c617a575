// Fuzzing: any bytes as the metrics.jsonl and the event file that a killed process left, at resume
// (scripts/fuzz.sh).
#include "tests/fuzz/target.h"
#include "train/logs/run_log.h"

SACCADE_FUZZ(run_log) {
  using namespace saccade::fuzz;
  std::filesystem::remove_all(folder() + "/run");
  std::filesystem::create_directories(folder() + "/run");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  write("run/metrics.jsonl", text);
  write("run/events.out.tfevents.1.host", text);
  attempt([&] { saccade::RunLog(folder() + "/run", 5).record("train", 6, {{"loss", 1.0}}); });
}
