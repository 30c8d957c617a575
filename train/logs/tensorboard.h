// TensorBoard event files: a TFRecord stream of Event messages with summaries of scalars and pictures. A
// record is: u64 length, u32 masked crc32c of the length, the bytes, u32 masked crc32c of the bytes
// (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/metrics.h"

namespace saccade {

// Returns the CRC-32C (Castagnoli) of the bytes.
uint32_t crc32c(std::string_view bytes);
// Frames the bytes as one record.
std::string tfrecord(std::string_view bytes);

// Truncates this program's event files in the folder before the first event after `step`, before an
// evaluation at one of the `early_steps`, and before anything that is not a whole record, so that a resumed
// run shows no step twice. Files of other programs stay. Returns what was found damaged or foreign, one line
// each.
std::vector<std::string> cut_event_files(const std::string& folder, int64_t step,
                                         const std::vector<int64_t>& early_steps);

// A picture as the bytes of a JPEG or PNG file.
struct EventPicture {
  std::string tag;
  int64_t height = 0, width = 0;
  std::vector<uint8_t> bytes;
};

class EventWriter {
 public:
  // Opens a new file in the folder, which must exist; the files of several starts read as one run. Throws
  // Error if it cannot be created.
  explicit EventWriter(const std::string& folder);
  ~EventWriter();
  EventWriter& operator=(EventWriter&&) = delete;

  // Writes one event with all scalars, and flushes it.
  void scalars(int64_t step, const Metrics& values);
  // Writes one event with all pictures, RGB; nothing if there are none.
  void pictures(int64_t step, const std::vector<EventPicture>& pictures);
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& event);
  std::string path_;
  std::FILE* file_;
};

}  // namespace saccade
