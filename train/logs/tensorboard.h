// TensorBoard event files: a TFRecord stream of Event messages with scalar summaries.
// Record: u64 length, u32 masked crc32c of it, the bytes, u32 masked crc32c of them
// (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/metrics.h"

namespace saccade {

// CRC-32C (Castagnoli) of the bytes.
uint32_t crc32c(std::string_view bytes);
// One framed record.
std::string tfrecord(std::string_view bytes);

// Ends the event files of the folder before the first event after `step`, before an evaluation at one of the `early_steps`, and before
// what is no whole record, so that a resumed run shows no step twice. Returns what was found damaged, a line each.
std::vector<std::string> cut_event_files(const std::string& folder, int64_t step,
                                         const std::vector<int64_t>& early_steps);

class EventWriter {
 public:
  // Opens a new file in the folder, which must exist; several of them, from several starts, read as one run.
  // Throws Error when it cannot be created.
  explicit EventWriter(const std::string& folder);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // One event with all scalars, flushed.
  void scalars(int64_t step, const Metrics& values);
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& event);
  std::string path_;
  std::FILE* file_;
};

}  // namespace saccade
