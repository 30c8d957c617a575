#include "core/formats/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "core/files/checksum.h"
#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "core/formats/json_syntax.h"
#include "core/formats/torch_file.h"

namespace saccade {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The format's own limit.
constexpr uint64_t kMaxHeader = 100'000'000;

constexpr const char *kChecksums = "saccade.checksums", *kHeaderChecksum = "saccade.header_checksum";

// Returns the position of the digits of the header's own checksum, or npos if there are none. A quote inside
// a string is escaped, so nothing else looks like this key.
size_t header_checksum_at(const std::string& header) {
  const std::string key = fmt::format("\"{}\":\"", kHeaderChecksum);
  const size_t at = header.find(key);
  const size_t digits = at + key.size();
  return at == std::string::npos || digits + kChecksumDigits > header.size() ? std::string::npos : digits;
}
std::string header_checksum(std::string header, size_t at) {
  header.replace(at, kChecksumDigits, kChecksumDigits, '0');
  return checksum_text(checksum(header.data(), header.size()));
}

struct Placed {
  WeightEntry entry;
  uint64_t begin = 0, end = 0;  // bytes of the file
};

// Reads one tensor of the header; its bytes must be in [data_start, file_size).
Placed read_tensor(const std::string& path, std::string_view key, simdjson::dom::element value,
                   uint64_t data_start, uint64_t file_size) {
  const std::string name = printable(key);
  simdjson::dom::object fields;
  simdjson::dom::array dims, offsets;
  std::string_view dtype;
  if (value.get(fields) != simdjson::SUCCESS || fields["dtype"].get(dtype) != simdjson::SUCCESS ||
      fields["shape"].get(dims) != simdjson::SUCCESS ||
      fields["data_offsets"].get(offsets) != simdjson::SUCCESS)
    fail_input("{}: tensor \"{}\" needs dtype, shape and data_offsets", path, name);
  int known = 0;
  for (const auto field : fields)
    known += field.key == "dtype" || field.key == "shape" || field.key == "data_offsets";
  if (known != 3) fail_input("{}: tensor \"{}\" has a field twice", path, name);
  uint64_t bytes = dtype_bytes(dtype);
  if (bytes == 0) fail_input("{}: tensor \"{}\" has unknown dtype \"{}\"", path, name, printable(dtype));
  Placed placed;
  WeightEntry& e = placed.entry;
  e.name = std::string(key);
  e.dtype = std::string(dtype);
  bool too_large = false, has_zero = false;
  for (auto d : dims) {
    int64_t size = 0;
    if (d.get(size) != simdjson::SUCCESS || size < 0)
      fail_input("{}: tensor \"{}\": its shape must be non-negative integers", path, name);
    if (e.shape.rank() == Shape::kMaxRank)
      fail_input("{}: tensor \"{}\" has more than {} axes", path, name, Shape::kMaxRank);
    e.shape.push_back(size);
    has_zero |= size == 0;
    if (size != 0) too_large |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  // The product of the nonzero sizes must not overflow either: shapes are later multiplied in any order.
  if (too_large || bytes > (uint64_t{1} << 62))
    fail_input("{}: tensor \"{}\" is too large: shape {}", path, name, e.shape);
  if (has_zero) bytes = 0;
  uint64_t bounds[2];
  if (offsets.size() != 2 || offsets.at(0).get(bounds[0]) != simdjson::SUCCESS ||
      offsets.at(1).get(bounds[1]) != simdjson::SUCCESS)
    fail_input("{}: tensor \"{}\": data_offsets must be two non-negative integers", path, name);
  if (bounds[0] > bounds[1])
    fail_input("{}: tensor \"{}\": its data begin at byte {}, after their end at byte {}", path, name,
               bounds[0], bounds[1]);
  if (bounds[1] > file_size - data_start)
    fail_input("{}: tensor \"{}\": bytes [{}, {}) are outside of the file's {} data bytes (cut short?)", path,
               name, bounds[0], bounds[1], file_size - data_start);
  if (bounds[1] - bounds[0] != bytes)
    fail_input("{}: tensor \"{}\": shape {} of {} needs {} bytes, got {}", path, name, e.shape, e.dtype,
               bytes, bounds[1] - bounds[0]);
  placed.begin = data_start + bounds[0];
  placed.end = data_start + bounds[1];
  return placed;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : WeightsFile(path), file_(path, kWeightsFile) {
  parse_header();
}

void SafetensorsReader::parse_header() {
  const uint64_t file_size = file_.size();
  uint64_t length = 0;
  if (file_size < 8)
    fail_input("{}: not a safetensors file: {} bytes, expected at least 8", path_, file_size);
  file_.read_at(&length, 8, 0);
  if (length > kMaxHeader && looks_like_torch_file({reinterpret_cast<const char*>(&length), sizeof(length)}))
    fail_input("{}: a PyTorch file, expected safetensors, which saccade convert makes from it", path_);
  if (length > kMaxHeader || length > file_size - 8)
    fail_input("{}: not a safetensors file, or cut short: a header of {} bytes in a file of {}", path_,
               length, file_size);
  std::string text(length, ' ');
  file_.read_at(text.data(), length, 8);

  simdjson::dom::parser parser;
  simdjson::dom::object root;
  if (parser.parse(simdjson::padded_string(text)).get(root) != simdjson::SUCCESS) {
    const JsonFault fault = fault_of_json(text);
    fail_input("{}: not a safetensors file: its header is not a JSON object{}", path_,
               fault.what != nullptr ? fmt::format(" (byte {}: {})", fault.at, fault.what) : "");
  }
  std::vector<Placed> found;
  bool has_metadata = false;
  for (auto [key, value] : root) {
    if (key == "__metadata__") {
      simdjson::dom::object map;
      if (has_metadata || value.get(map) != simdjson::SUCCESS)
        fail_input("{}: __metadata__ must be one map of strings", path_);
      has_metadata = true;
      for (auto [k, v] : map) {
        std::string_view s;
        if (v.get(s) != simdjson::SUCCESS)
          fail_input("{}: __metadata__ \"{}\" is not a string", path_, printable(k));
        if (!metadata_.emplace(k, s).second)
          fail_input("{}: __metadata__ has \"{}\" twice", path_, printable(k));
      }
    } else {
      found.push_back(read_tensor(path_, key, value, 8 + length, file_size));
    }
  }
  // No gaps and no overlaps: every byte after the header belongs to one tensor.
  std::sort(found.begin(), found.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.entry.name) < std::tie(b.begin, b.end, b.entry.name);
  });
  uint64_t position = 8 + length;
  for (Placed& p : found) {
    if (p.begin != position)
      fail_input("{}: tensor \"{}\" {}", path_, printable(p.entry.name),
                 p.begin < position ? "overlaps another one" : "follows bytes that belong to no tensor");
    position = p.end;
    places_[p.entry.name] = {p.begin, p.end - p.begin};
    add(std::move(p.entry));
  }
  if (position != file_size)
    fail_input("{}: {} to no tensor", path_,
               file_size - position == 1 ? "1 byte at the end belongs"
                                         : fmt::format("{} bytes at the end belong", file_size - position));
  take_checksums(std::move(text));
}

void SafetensorsReader::take_checksums(std::string header) {
  const auto sums = metadata_.find(kChecksums), own = metadata_.find(kHeaderChecksum);
  if (sums == metadata_.end() && own == metadata_.end()) return;
  // A file in which one of the two names is damaged must not count as one without checksums.
  const size_t at = header_checksum_at(header);
  if (sums == metadata_.end() || own == metadata_.end() || at == std::string::npos ||
      own->second != header_checksum(std::move(header), at))
    fail_input("{}: damaged file: the checksum of its header is wrong", path_);
  size_t position = 0;
  for (const WeightEntry& e : entries()) {
    places_[e.name].checksum = sums->second.substr(std::min(position, sums->second.size()), kChecksumDigits);
    position += kChecksumDigits;
  }
  if (position != sums->second.size())
    fail_input("{}: damaged file: {} digits of checksums, expected {} ({} for each tensor)", path_,
               sums->second.size(), position, kChecksumDigits);
  metadata_.erase(sums);
  metadata_.erase(own);
}

void SafetensorsReader::compare(const std::string& name, Place& place, uint64_t found) const {
  if (place.checksum != checksum_text(found))
    fail_input("{}: damaged file: the checksum of tensor \"{}\" is wrong", path_, printable(name));
  place.whole = true;
}

Tensor SafetensorsReader::read(const std::string& name) const {
  const WeightEntry* e = find(name);
  if (!e) fail_input("{}: no tensor \"{}\"", path_, printable(name));
  Place& place = places_.at(name);
  return decode_tensor(*e, path_, [&](void* out) {
    file_.read_at(out, place.bytes, place.begin);
    if (!place.checksum.empty() && !place.whole) compare(name, place, checksum(out, place.bytes));
  });
}

void SafetensorsReader::verify() const {
  std::vector<char> buffer;
  constexpr uint64_t kBuffer = 1 << 20;
  for (auto& [name, place] : places_) {
    if (place.checksum.empty() || place.whole) continue;
    Checksum sum;
    for (uint64_t done = 0; done < place.bytes;) {
      const uint64_t part = std::min(kBuffer, place.bytes - done);
      buffer.resize(kBuffer);
      file_.read_at(buffer.data(), part, place.begin + done);
      sum.add(buffer.data(), part);
      done += part;
    }
    compare(name, place, sum.value());
  }
}

namespace {

// Refuses text that a reader could not read back.
void check_text(const std::string& path, const char* what, const std::string& text) {
  if (!is_utf8(text))
    fail_input("{}: {} \"{}\" is not UTF-8, which the format requires", path, what, printable(text));
}

// Returns the header without its padding and with zeros for the checksums.
std::string header_of(const std::string& path, const NamedValues& tensors, const std::vector<size_t>& order,
                      std::map<std::string, std::string> metadata) {
  metadata[kChecksums] = std::string(tensors.size() * kChecksumDigits, '0');
  metadata[kHeaderChecksum] = std::string(kChecksumDigits, '0');
  std::string header = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    check_text(path, "the metadata", key);
    check_text(path, "the metadata", value);
    header += (header.back() == '{' ? "" : ",") + json_quote(key) + ":" + json_quote(value);
  }
  header += "}";
  uint64_t position = 0;
  std::set<std::string> names;
  for (size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    SACCADE_CHECK(names.insert(name).second, "[safetensors] tensor \"{}\" is given twice", name);
    check_text(path, "the name of tensor", name);
    if (name == "__metadata__")
      fail_input("{}: the format does not allow a tensor called \"{}\"", path, name);
    std::string dims;
    for (int64_t d : tensor.shape()) dims += fmt::format("{}{}", dims.empty() ? "" : ",", d);
    header +=
        fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_quote(name),
                    file_dtype(tensor.dtype()), dims, position, position + tensor.bytes());
    position += tensor.bytes();
  }
  return header + "}";
}

}  // namespace

void write_safetensors(const std::string& path, const NamedValues& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide types first, so that every tensor starts at a multiple of its element size.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return size_of(tensors[i].second.dtype()); });
  std::string header = header_of(path, tensors, order, metadata);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  SACCADE_CHECK(header.size() <= kMaxHeader, "[safetensors] a header of {} bytes is over the format's limit",
                header.size());

  OutputFile file(path, OutputFile::Sync::kYes);
  uint64_t length = header.size(), position = 8 + length;
  std::string sums;
  for (size_t i : order) {
    Tensor host = tensors[i].second.to(Device::kCpu).contiguous();
    file.write_at(host.raw(), host.bytes(), position);
    sums += checksum_text(checksum(host.raw(), host.bytes()));
    position += host.bytes();
  }
  const std::string key = fmt::format("\"{}\":\"", kChecksums);
  header.replace(header.find(key) + key.size(), sums.size(), sums);
  const size_t at = header_checksum_at(header);
  header.replace(at, kChecksumDigits, header_checksum(header, at));
  file.write_at(&length, 8, 0);
  file.write_at(header.data(), header.size(), 8);
  file.commit();
}

}  // namespace saccade
