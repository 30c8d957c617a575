#include "train/logs/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "train/logs/event.pb.h"

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

// Makes an event with the current time.
logs::Event make_event(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  logs::Event event;
  event.set_wall_time(now.count());
  event.set_step(step);
  return event;
}

template <class T>
T raw_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Reads the events of a file one after the other, however long the file is.
class EventReader {
 public:
  explicit EventReader(const std::string& path) : file_(path, kEventFile) {}

  // Returns false at the end, and before anything that is not a whole record.
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

// The first event of our files names their writer, in the field that TensorBoard has for that. Our older
// files do not, but they state their step, 0, which protobuf's own writers, as all other programs use them,
// omit.
constexpr std::string_view kVersion = "brain.Event:2", kWriter = "saccade";

bool is_first_of_ours(const std::string& bytes) {
  logs::Event event;
  return event.ParseFromString(bytes) && event.has_step() && event.step() == 0 &&
         event.file_version() == kVersion && !event.has_summary() &&
         (!event.has_source_metadata() || event.source_metadata().writer() == kWriter);
}

bool is_evaluation(const logs::Event& event) {
  return std::ranges::any_of(event.summary().value(),
                             [](const auto& value) { return value.tag().starts_with("eval/"); });
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
    bool whole = false;  // all records up to here are whole
    while ((whole = file.next(event))) {
      logs::Event read;
      if (!read.ParseFromString(event) || read.step() > step ||
          (is_evaluation(read) && std::ranges::count(early_steps, read.step()) > 0))
        break;
      end = file.end();
    }
    if (!whole && end < file.size()) notes.push_back(path + ": its end is damaged and is dropped");
    if (end < file.size() && ::truncate(path.c_str(), static_cast<off_t>(end)) != 0)
      fail_input("{}: cannot write: {}", path, std::strerror(errno));
  }
  if (!others.empty())
    notes.push_back(fmt::format(
        "{}/{}{}: not written by this program, and stays as it is", folder, *std::ranges::min_element(others),
        others.size() == 1 ? "" : fmt::format(" and {} more event files", others.size() - 1)));
  return notes;
}

EventWriter::EventWriter(const std::string& folder) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  // Two starts within the same second need different names.
  for (int n = 0;; ++n) {
    path_ = (std::filesystem::path(folder) /
             fmt::format("events.out.tfevents.{:010}.{}.{}.{}", now.count(), host, ::getpid(), n))
                .string();
    file_ = std::fopen(path_.c_str(), "wbxe");
    if (file_) break;
    if (errno != EEXIST) fail("{}: cannot create: {}", path_, std::strerror(errno));
  }
  logs::Event event = make_event(0);
  event.set_file_version(std::string(kVersion));
  event.mutable_source_metadata()->set_writer(std::string(kWriter));
  write(event.SerializeAsString());
}

EventWriter::~EventWriter() { std::fclose(file_); }

void EventWriter::write(const std::string& event) {
  std::string record = tfrecord(event);
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() || std::fflush(file_) != 0)
    fail("{}: cannot write: {}", path_, std::strerror(errno));
}

void EventWriter::scalars(int64_t step, const Metrics& values) {
  logs::Event event = make_event(step);
  logs::Summary& summary = *event.mutable_summary();
  for (const auto& [tag, number] : values) {
    logs::Summary::Value& value = *summary.add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  }
  write(event.SerializeAsString());
}

void EventWriter::pictures(int64_t step, const std::vector<EventPicture>& pictures) {
  if (pictures.empty()) return;
  logs::Event event = make_event(step);
  for (const EventPicture& p : pictures) {
    logs::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(p.tag);
    logs::Summary::Image& image = *value.mutable_image();
    image.set_height(static_cast<int32_t>(p.height));
    image.set_width(static_cast<int32_t>(p.width));
    image.set_colorspace(3);  // RGB
    image.set_encoded_image_string(p.bytes.data(), p.bytes.size());
  }
  write(event.SerializeAsString());
}

}  // namespace saccade
