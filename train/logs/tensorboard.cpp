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

// The event of the first record of `bytes`; nothing when it is not whole.
constexpr size_t kRecordHead = 12, kRecordTail = 4;
std::optional<std::string_view> first_record(std::string_view bytes) {
  if (bytes.size() < kRecordHead + kRecordTail) return std::nullopt;
  const auto length = raw_at<uint64_t>(bytes, 0);
  if (raw_at<uint32_t>(bytes, 8) != masked(crc32c(bytes.substr(0, 8))) ||
      length > bytes.size() - kRecordHead - kRecordTail)
    return std::nullopt;
  const std::string_view event = bytes.substr(kRecordHead, length);
  if (raw_at<uint32_t>(bytes, kRecordHead + length) != masked(crc32c(event))) return std::nullopt;
  return event;
}

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
  std::vector<std::string> notes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with("events.out.tfevents.") ||
        entry.symlink_status(error).type() != std::filesystem::file_type::regular)
      continue;
    const std::vector<uint8_t> bytes = read_file(path, kLogFile);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    size_t end = 0;
    while (end < text.size()) {
      const std::optional<std::string_view> event = first_record(text.substr(end));
      if (!event) {
        notes.push_back(path + ": its end is damaged and is dropped");
        break;
      }
      const EventPlace place = place_of(*event);
      const auto at = static_cast<int64_t>(place.step);
      if (at > step || (place.evaluation && std::count(early_steps.begin(), early_steps.end(), at) > 0))
        break;
      end += kRecordHead + event->size() + kRecordTail;
    }
    if (end < text.size() && ::truncate(path.c_str(), static_cast<off_t>(end)) != 0)
      fail_input("{}: cannot write: {}", path, std::strerror(errno));
  }
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
  write(encode_event(0, 3, "brain.Event:2"));
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
  // Value { string tag = 1; Image image = 4 }, Image { int32 height = 1, width = 2, colorspace = 3; bytes encoded_image_string = 4 }
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
