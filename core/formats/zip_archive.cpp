// The format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3. Only the directory at the end of the file is
// trusted; of an entry's own header only the length is read.
#include "core/formats/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr std::string_view kEnd = "PK\x05\x06", kEnd64 = "PK\x06\x06", kLocator64 = "PK\x06\x07",
                           kRecord = "PK\x01\x02", kHeader = "PK\x03\x04";
constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20, kRecordBytes = 46,
                   kHeaderBytes = 30;
constexpr uint64_t kLongestComment = 0xFFFF;

// Reads a little-endian number of a record.
template <class T>
uint64_t number(std::string_view record, size_t at) {
  T value = 0;
  std::memcpy(&value, record.data() + at, sizeof value);
  return value;
}

}  // namespace

void ZipArchive::damaged(const std::string& reason) const {
  fail_input("{}: not a usable zip archive: {}", file_.path(), reason);
}

ZipArchive::ZipArchive(const std::string& path) : file_(path, kWeightsFile) {
  Directory directory = find_directory();
  if (directory.place > file_.size() || directory.bytes > file_.size() - directory.place)
    damaged("its directory is outside the file");
  // An entry takes about 100 bytes; bytes of a sparse file cost its writer nothing.
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  if (directory.bytes > kMaxBytes)
    damaged(fmt::format("its directory has {} bytes, expected at most {}", directory.bytes, kMaxBytes));
  std::string bytes(directory.bytes, '\0');
  file_.read_at(bytes.data(), bytes.size(), directory.place);
  std::string_view rest = bytes;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kRecordBytes || !rest.starts_with(kRecord))
      damaged(fmt::format("its directory ends before entry {} of {}", i, directory.entries));
    size_t name = number<uint16_t>(rest, 28), extra = number<uint16_t>(rest, 30),
           comment = number<uint16_t>(rest, 32);
    if (rest.size() - kRecordBytes < name + extra + comment) damaged("its directory is cut off");
    add_entry(rest.substr(0, kRecordBytes), rest.substr(kRecordBytes, name),
              rest.substr(kRecordBytes + name, extra));
    rest.remove_prefix(kRecordBytes + name + extra + comment);
  }
}

ZipArchive::Directory ZipArchive::find_directory() const {
  uint64_t tail_bytes = std::min(file_.size(), kEndBytes + kLongestComment);
  std::string tail(tail_bytes, '\0');
  file_.read_at(tail.data(), tail.size(), file_.size() - tail_bytes);
  // Finds the last record whose comment ends with the file.
  size_t at = tail.rfind(kEnd);
  while (at != std::string::npos &&
         (tail.size() - at < kEndBytes || number<uint16_t>(tail, at + 20) != tail.size() - at - kEndBytes))
    at = at == 0 ? std::string::npos : tail.rfind(kEnd, at - 1);
  if (at == std::string::npos) damaged("it has no directory; is it cut off?");
  Directory directory{number<uint16_t>(tail, at + 10), number<uint32_t>(tail, at + 12),
                      number<uint32_t>(tail, at + 16)};
  if (directory.entries != 0xFFFF && directory.bytes != 0xFFFFFFFF && directory.place != 0xFFFFFFFF)
    return directory;

  // One of the numbers does not fit: the preceding record says where the long ones are.
  if (at < kLocator64Bytes || !std::string_view(tail).substr(at - kLocator64Bytes).starts_with(kLocator64))
    damaged("its directory has no zip64 part");
  uint64_t end64 = number<uint64_t>(tail, at - kLocator64Bytes + 8);
  if (file_.size() < kEnd64Bytes || end64 > file_.size() - kEnd64Bytes)
    damaged("the zip64 part of its directory is outside the file");
  std::string record(kEnd64Bytes, '\0');
  file_.read_at(record.data(), record.size(), end64);
  if (!record.starts_with(kEnd64)) damaged("its directory has no zip64 part");
  return {number<uint64_t>(record, 32), number<uint64_t>(record, 40), number<uint64_t>(record, 48)};
}

void ZipArchive::add_entry(std::string_view record, std::string_view name_bytes, std::string_view extra) {
  std::string name(name_bytes);
  if (name.empty() || name[0] == '/' || name.find('\\') != std::string::npos ||
      name.find('\0') != std::string::npos || ("/" + name + "/").find("/../") != std::string::npos)
    fail_input("{}: entry \"{}\" of the archive has an unsafe name", file_.path(), printable(name));
  constexpr uint64_t kEncrypted = 1;
  if (number<uint16_t>(record, 10) != 0 || (number<uint16_t>(record, 8) & kEncrypted) != 0)
    fail_input("{}: entry \"{}\" of the archive is compressed or encrypted, but torch.save only stores",
               file_.path(), printable(name));

  uint64_t stored = number<uint32_t>(record, 20), bytes = number<uint32_t>(record, 24),
           header = number<uint32_t>(record, 42);
  // Numbers that do not fit 32 bits are in the zip64 field, in this order.
  while (extra.size() >= 4) {
    uint64_t id = number<uint16_t>(extra, 0), length = number<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (length > extra.size()) break;
    std::string_view field = extra.substr(0, length);
    extra.remove_prefix(length);
    if (id != 1) continue;
    for (uint64_t* value : {&bytes, &stored, &header}) {
      if (*value != 0xFFFFFFFF || field.size() < 8) continue;
      *value = number<uint64_t>(field, 0);
      field.remove_prefix(8);
    }
  }
  if (bytes != stored || bytes > file_.size())
    fail_input("{}: entry \"{}\" of the archive claims {} bytes in a file of {}", file_.path(),
               printable(name), bytes, file_.size());
  Entry entry{header, bytes, static_cast<uint32_t>(number<uint32_t>(record, 16)), name};
  if (!entries_.emplace(name, entry).second)
    fail_input("{}: entry \"{}\" appears twice", file_.path(), printable(name));
  // Otherwise a small file could be read without end.
  stored_ += bytes;
  if (stored_ > file_.size()) damaged("its entries overlap");
}

void ZipArchive::damaged(const Entry& entry, const char* reason) const {
  fail_input("{}: entry \"{}\" of the archive cannot be read: {}", file_.path(), printable(entry.name),
             reason);
}

uint64_t ZipArchive::find_bytes(const Entry& entry) const {
  if (file_.size() < kHeaderBytes || entry.header > file_.size() - kHeaderBytes)
    damaged(entry, "it is outside the file");
  std::string header(kHeaderBytes, '\0');
  file_.read_at(header.data(), header.size(), entry.header);
  if (!header.starts_with(kHeader)) damaged(entry, "its header is missing");
  uint64_t start = entry.header + kHeaderBytes + number<uint16_t>(header, 26) + number<uint16_t>(header, 28);
  if (start > file_.size() || entry.bytes > file_.size() - start) damaged(entry, "it is outside the file");
  return start;
}

void ZipArchive::compare(const Entry& entry, uint64_t checksum) const {
  if (checksum != entry.checksum) damaged(entry, "its checksum is wrong");
  entry.whole = true;
}

void ZipArchive::read(const Entry& entry, void* out, uint64_t bytes, uint64_t offset) const {
  const uint64_t start = find_bytes(entry);
  if (offset > entry.bytes || bytes > entry.bytes - offset) damaged(entry, "it is shorter than it should be");
  const bool all = bytes == entry.bytes;
  if (!all && !entry.whole) verify(entry);
  file_.read_at(out, bytes, start + offset);
  if (all && !entry.whole) compare(entry, crc32_z(0, static_cast<const unsigned char*>(out), bytes));
}

void ZipArchive::verify(const Entry& entry) const {
  const uint64_t start = find_bytes(entry);
  constexpr uint64_t kBuffer = 1 << 20;
  std::vector<unsigned char> buffer(std::min(kBuffer, entry.bytes));
  uint64_t sum = 0;
  for (uint64_t done = 0; done < entry.bytes; done += buffer.size()) {
    buffer.resize(std::min(kBuffer, entry.bytes - done));
    file_.read_at(buffer.data(), buffer.size(), start + done);
    sum = crc32_z(sum, buffer.data(), buffer.size());
  }
  compare(entry, sum);
}

void ZipArchive::verify() const {
  for (const auto& [name, entry] : entries_)
    if (!entry.whole) verify(entry);
}

}  // namespace saccade
