#include "core/formats/safetensors.h"

#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/formats/json.h"

namespace saccade {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The format's own limit.
constexpr uint64_t kMaxHeader = 100'000'000;

struct Placed {
  WeightEntry entry;
  uint64_t begin = 0, end = 0;  // bytes of the file
};

// One tensor of the header, whose bytes must lie in [data_start, file_size).
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
      fail_input("{}: tensor \"{}\": a size of its shape is no count", path, name);
    if (e.shape.rank() == Shape::kMaxRank)
      fail_input("{}: tensor \"{}\" has more than {} axes", path, name, Shape::kMaxRank);
    e.shape.push_back(size);
    has_zero |= size == 0;
    if (size != 0) too_large |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  // The product of the other sizes must not overflow either: shapes are multiplied in any order later.
  if (too_large || bytes > (uint64_t{1} << 62))
    fail_input("{}: tensor \"{}\" is too large: shape {}", path, name, e.shape.to_string());
  if (has_zero) bytes = 0;
  uint64_t bounds[2];
  if (offsets.size() != 2 || offsets.at(0).get(bounds[0]) != simdjson::SUCCESS ||
      offsets.at(1).get(bounds[1]) != simdjson::SUCCESS)
    fail_input("{}: tensor \"{}\": data_offsets must be two counts", path, name);
  if (bounds[0] > bounds[1] || bounds[1] > file_size - data_start)
    fail_input("{}: tensor \"{}\": bytes [{}, {}) are outside of the file's {} data bytes (cut short?)", path,
               name, bounds[0], bounds[1], file_size - data_start);
  if (bounds[1] - bounds[0] != bytes)
    fail_input("{}: tensor \"{}\": shape {} of {} needs {} bytes, got {}", path, name, e.shape.to_string(),
               e.dtype, bytes, bounds[1] - bounds[0]);
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
  if (length > kMaxHeader || length > file_size - 8)
    fail_input("{}: not a safetensors file or cut short: header of {} bytes in a file of {}", path_, length,
               file_size);
  std::string text(length, ' ');
  file_.read_at(text.data(), length, 8);

  simdjson::dom::parser parser;
  simdjson::dom::object root;
  if (auto error = parser.parse(simdjson::padded_string(text)).get(root); error != simdjson::SUCCESS)
    fail_input("{}: not a safetensors file: its header is no JSON object ({})", path_,
               simdjson::error_message(error));
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
          fail_input("{}: __metadata__ \"{}\" is no string", path_, printable(k));
        metadata_[std::string(k)] = std::string(s);
      }
    } else {
      found.push_back(read_tensor(path_, key, value, 8 + length, file_size));
    }
  }
  // No gap, no overlap: every byte after the header belongs to one tensor.
  std::sort(found.begin(), found.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.entry.name) < std::tie(b.begin, b.end, b.entry.name);
  });
  uint64_t position = 8 + length;
  for (Placed& p : found) {
    if (p.begin != position)
      fail_input("{}: tensor \"{}\" {}", path_, printable(p.entry.name),
                 p.begin < position ? "overlaps another one" : "follows bytes that belong to no tensor");
    position = p.end;
    begin_[p.entry.name] = p.begin;
    add(std::move(p.entry));
  }
  if (position != file_size)
    fail_input("{}: {} bytes at the end belong to no tensor", path_, file_size - position);
}

Tensor SafetensorsReader::read(const std::string& name) const {
  const WeightEntry* e = find(name);
  if (!e) fail_input("{}: no tensor \"{}\"", path_, printable(name));
  uint64_t bytes = static_cast<uint64_t>(e->shape.numel()) * dtype_bytes(e->dtype);
  return decode_tensor(*e, path_, [&](void* out) { file_.read_at(out, bytes, begin_.at(name)); });
}

namespace {

// A file that appears under its name only when commit() succeeded.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path) {
    std::filesystem::path p(path);
    folder_ = p.has_parent_path() ? p.parent_path().string() : ".";
    temporary_ = (std::filesystem::path(folder_) / ("." + p.filename().string() + ".tmp")).string();
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) stop("open");
  }
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!committed_) ::unlink(temporary_.c_str());
  }
  void write(const void* data, size_t bytes) {
    const char* p = static_cast<const char*>(data);
    while (bytes > 0) {
      ssize_t n = ::write(file_, p, std::min<size_t>(bytes, 1u << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) stop("write");
      p += n;
      bytes -= static_cast<size_t>(n);
    }
  }
  void commit() {
    if (::fsync(file_) != 0) stop("sync");
    int closed = ::close(file_);
    file_ = -1;
    if (closed != 0) stop("close");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) stop("rename");
    committed_ = true;
    int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
      ::fsync(folder);
      ::close(folder);
    }
  }

 private:
  [[noreturn]] void stop(const char* what) {
    fail("{}: cannot {}: {}", temporary_, what, std::strerror(errno));
  }
  std::string path_, folder_, temporary_;
  int file_ = -1;
  bool committed_ = false;
};

}  // namespace

void write_safetensors(const std::string& path, const NamedValues& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide types first, so that every tensor starts at a multiple of its element size.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size_of(tensors[a].second.dtype()) > size_of(tensors[b].second.dtype());
  });
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      header += (header.back() == '{' ? "" : ",") + json_quote(key) + ":" + json_quote(value);
    header += "}";
  }
  uint64_t position = 0;
  std::set<std::string> names;
  for (size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    SACCADE_CHECK(names.insert(name).second, "[safetensors] tensor \"{}\" is given twice", name);
    std::string dims;
    for (int64_t d : tensor.shape()) dims += fmt::format("{}{}", dims.empty() ? "" : ",", d);
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() == 1 ? "" : ",", json_quote(name), file_dtype(tensor.dtype()), dims,
                          position, position + tensor.bytes());
    position += tensor.bytes();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  SACCADE_CHECK(header.size() <= kMaxHeader, "[safetensors] a header of {} bytes is over the format's limit",
                header.size());

  TemporaryFile file(path);
  uint64_t length = header.size();
  file.write(&length, 8);
  file.write(header.data(), header.size());
  for (size_t i : order) {
    Tensor host = tensors[i].second.to(Device::kCpu).contiguous();
    file.write(host.raw(), host.bytes());
  }
  file.commit();
}

}  // namespace saccade
