#include "train/logs/tensorboard.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/files/file.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1u) ? 0x82F63B78u : 0u);
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

template <class T>
void append_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

using Wire = google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// The bytes of a protobuf message whose fields `write` writes.
template <class Write>
std::string encode(Write write) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  CodedOutputStream out(&stream);
  write(&out);
  out.Trim();
  return bytes;
}

// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
std::string encode_event(int64_t step, int field, const std::string& content) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return encode([&](CodedOutputStream* out) {
    Wire::WriteDouble(1, now.count(), out);
    Wire::WriteInt64(2, step, out);
    Wire::WriteBytes(field, content, out);
  });
}

template <class T>
T raw_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The events of a file, one after the other, however long the file is.
class EventReader {
 public:
  explicit EventReader(const std::string& path) : file_(path, kEventFile) {}

  // False at the end, and before what is no whole record.
  bool next(std::string& event) {
    constexpr uint64_t kHead = 12, kTail = 4, kMax = uint64_t{256} << 20;  // more than one step's pictures
    const uint64_t left = file_.size() - end_;
    std::string head(kHead, '\0');
    if (left < kHead + kTail) return false;
    file_.read_at(head.data(), kHead, end_);
    const auto length = raw_at<uint64_t>(head, 0);
    if (raw_at<uint32_t>(head, 8) != masked(crc32c(std::string_view(head).substr(0, 8))) ||
        length > std::min(kMax, left - kHead - kTail))
      return false;
    event.resize(length + kTail);
    file_.read_at(event.data(), event.size(), end_ + kHead);
    const auto sum = raw_at<uint32_t>(event, length);
    event.resize(length);
    if (sum != masked(crc32c(event))) return false;
    end_ += kHead + length + kTail;
    return true;
  }
  uint64_t end() const { return end_; }  // of the last event
  uint64_t size() const { return file_.size(); }

 private:
  static constexpr FileKind kEventFile{"an event file", UINT64_MAX};
  InputFile file_;
  uint64_t end_ = 0;
};

struct EventPlace {
  uint64_t step = 0;
  bool evaluation = false;
};
// Of an event as encode_event writes it.
EventPlace place_of(std::string_view event) {
  EventPlace place;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(event.data()),
                                            static_cast<int>(event.size()));
  for (uint32_t tag; (tag = in.ReadTag()) != 0;) {
    if (Wire::GetTagFieldNumber(tag) == 2 && in.ReadVarint64(&place.step)) continue;
    if (!Wire::SkipField(&in, tag)) break;
  }
  place.evaluation = event.find("eval/") != std::string_view::npos;
  return place;
}

// The first event of our files names their writer, in TensorBoard's own field for that. Files of before have
// their first step written out, though it is 0, which protobuf's own writers, those of all others, leave out.
constexpr std::string_view kVersion = "brain.Event:2", kWriter = "saccade";

std::string first_event() {
  // Event { SourceMetadata source_metadata = 10; }, SourceMetadata { string writer = 1; }
  return encode_event(0, 3, std::string(kVersion)) + encode([](CodedOutputStream* out) {
           Wire::WriteBytes(10, encode([](CodedOutputStream* source) {
                              Wire::WriteBytes(1, std::string(kWriter), source);
                            }),
                            out);
         });
}

bool is_first_of_ours(const std::string& event) {
  const std::string ours = first_event();
  constexpr size_t kTime = 9;  // bytes of the wall time
  const size_t before = kTime + 2 + 2 + kVersion.size();
  return (event.size() == ours.size() || event.size() == before) && event[0] == ours[0] &&
         std::string_view(event).substr(kTime) == std::string_view(ours).substr(kTime, event.size() - kTime);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = 0xFFFFFFFFu;
  for (char b : bytes) c = kTable[(c ^ static_cast<unsigned char>(b)) & 0xFFu] ^ (c >> 8);
  return ~c;
}

std::string tfrecord(std::string_view bytes) {
  std::string length, out;
  append_raw(length, static_cast<uint64_t>(bytes.size()));
  out = length;
  append_raw(out, masked(crc32c(length)));
  out += bytes;
  append_raw(out, masked(crc32c(bytes)));
  return out;
}

std::vector<std::string> cut_event_files(const std::string& folder, int64_t step,
                                         const std::vector<int64_t>& early_steps) {
  std::vector<std::string> notes, others;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with("events.out.tfevents.") ||
        entry.symlink_status(error).type() != std::filesystem::file_type::regular)
      continue;
    EventReader file(path);
    std::string event;
    if (file.size() == 0) continue;
    if (!file.next(event) || !is_first_of_ours(event)) {
      others.push_back(entry.path().filename().string());
      continue;
    }
    uint64_t end = file.end();
    bool whole = false;  // up to here
    while ((whole = file.next(event))) {
      const EventPlace place = place_of(event);
      const auto at = static_cast<int64_t>(place.step);
      if (at > step || (place.evaluation && std::count(early_steps.begin(), early_steps.end(), at) > 0))
        break;
      end = file.end();
    }
    if (!whole && end < file.size()) notes.push_back(path + ": its end is damaged and is dropped");
    if (end < file.size() && ::truncate(path.c_str(), static_cast<off_t>(end)) != 0)
      fail_input("{}: cannot write: {}", path, std::strerror(errno));
  }
  if (!others.empty())
    notes.push_back(fmt::format(
        "{}/{}{}: not of this program, and stays as it is", folder, *std::ranges::min_element(others),
        others.size() == 1 ? "" : fmt::format(" and {} more event files", others.size() - 1)));
  return notes;
}

EventWriter::EventWriter(const std::string& folder) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  // Two starts within a second need two names.
  for (int n = 0;; ++n) {
    path_ = (std::filesystem::path(folder) /
             fmt::format("events.out.tfevents.{:010}.{}.{}.{}", now.count(), host, ::getpid(), n))
                .string();
    file_ = std::fopen(path_.c_str(), "wbxe");
    if (file_) break;
    if (errno != EEXIST) fail("{}: cannot create: {}", path_, std::strerror(errno));
  }
  write(first_event());
}

EventWriter::~EventWriter() { std::fclose(file_); }

void EventWriter::write(const std::string& event) {
  std::string record = tfrecord(event);
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() || std::fflush(file_) != 0)
    fail("{}: cannot write: {}", path_, std::strerror(errno));
}

void EventWriter::scalars(int64_t step, const Metrics& values) {
  // Summary { repeated Value value = 1; }, Value { string tag = 1; float simple_value = 2; }
  std::string summary = encode([&](CodedOutputStream* out) {
    for (const auto& [tag, number] : values) {
      Wire::WriteBytes(1, encode([&, &tag = tag, number = number](CodedOutputStream* value) {
                         Wire::WriteBytes(1, tag, value);
                         Wire::WriteFloat(2, static_cast<float>(number), value);
                       }),
                       out);
    }
  });
  write(encode_event(step, 5, summary));
}

void EventWriter::pictures(int64_t step, const std::vector<EventPicture>& pictures) {
  if (pictures.empty()) return;
  // Value { string tag = 1; Image image = 4 }, Image { int32 height = 1, width = 2, colorspace = 3; bytes
  // encoded_image_string = 4 }
  std::string summary = encode([&](CodedOutputStream* out) {
    for (const EventPicture& p : pictures) {
      const std::string image = encode([&](CodedOutputStream* content) {
        Wire::WriteInt32(1, static_cast<int32_t>(p.height), content);
        Wire::WriteInt32(2, static_cast<int32_t>(p.width), content);
        Wire::WriteInt32(3, 3, content);  // RGB
        Wire::WriteBytes(4, std::string(p.bytes.begin(), p.bytes.end()), content);
      });
      Wire::WriteBytes(1, encode([&](CodedOutputStream* value) {
                         Wire::WriteBytes(1, p.tag, value);
                         Wire::WriteBytes(4, image, value);
                       }),
                       out);
    }
  });
  write(encode_event(step, 5, summary));
}

}  // namespace saccade
