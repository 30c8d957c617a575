#include "train/logs/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

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

// Protobuf's wire format: varints, and fields tagged with number * 8 + wire type.
void append_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>((v & 0x7F) | 0x80);
  out += static_cast<char>(v);
}
void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_varint(out, static_cast<uint64_t>(field) * 8 + 2);
  append_varint(out, bytes.size());
  out += bytes;
}

// Event { double wall_time = 1; int64 step = 2; ... }
std::string event_head(int64_t step) {
  std::string out(1, static_cast<char>(1 * 8 + 1));
  append_raw(out, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  out += static_cast<char>(2 * 8 + 0);
  append_varint(out, static_cast<uint64_t>(step));
  return out;
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
  std::string event = event_head(0);
  append_bytes(event, 3, "brain.Event:2");  // file_version
  write(event);
}

EventWriter::~EventWriter() { std::fclose(file_); }

void EventWriter::write(const std::string& event) {
  std::string record = tfrecord(event);
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() || std::fflush(file_) != 0)
    fail("{}: cannot write: {}", path_, std::strerror(errno));
}

void EventWriter::scalars(int64_t step, const Metrics& values) {
  // Summary { repeated Value value = 1 }, Value { string tag = 1; float simple_value = 2 }
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    append_bytes(value, 1, tag);
    value += static_cast<char>(2 * 8 + 5);
    append_raw(value, static_cast<float>(number));
    append_bytes(summary, 1, value);
  }
  std::string event = event_head(step);
  append_bytes(event, 5, summary);
  write(event);
}

}  // namespace saccade
