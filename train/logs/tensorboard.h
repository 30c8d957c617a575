// TensorBoard event files: a TFRecord stream of Event messages with summaries of scalars and pictures.
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

// Ends the event files of this program in the folder before the first event after `step`, before an
// evaluation at one of the `early_steps`, and before what is no whole record, so that a resumed run shows no
// step twice. Those of other programs stay. Returns what was found damaged or not ours, a line each.
std::vector<std::string> cut_event_files(const std::string& folder, int64_t step,
                                         const std::vector<int64_t>& early_steps);

// A picture in a file's bytes: JPEG or PNG.
struct EventPicture {
  std::string tag;
  int64_t height = 0, width = 0;
  std::vector<uint8_t> bytes;
};

class EventWriter {
 public:
  // Opens a new file in the folder, which must exist; several of them, from several starts, read as one run.
  // Throws Error when it cannot be created.
  explicit EventWriter(const std::string& folder);
  ~EventWriter();
  EventWriter& operator=(EventWriter&&) = delete;

  // One event with all scalars, flushed.
  void scalars(int64_t step, const Metrics& values);
  // One event with all pictures, RGB; none for none.
  void pictures(int64_t step, const std::vector<EventPicture>& pictures);
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& event);
  std::string path_;
  std::FILE* file_;
};

}  // namespace saccade
