#include "train/safetensors.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "data/json.h"

namespace saccade {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The format's own limit.
constexpr uint64_t kMaxHeader = 100'000'000;

struct FileType {
  const char* name;
  size_t bytes;
};
constexpr FileType kTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                               {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                               {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

const FileType* find_type(std::string_view name) {
  for (const FileType& t : kTypes)
    if (name == t.name) return &t;
  return nullptr;
}

const char* file_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF64:
      return "F64";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kU8:
      return "U8";
    case DType::kBool:
      return "BOOL";
  }
  fail("[safetensors] unknown dtype {}", static_cast<int>(dtype));
}

float half_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1Fu,
           mantissa = h & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal
  return sign ? -magnitude : magnitude;
}

template <class From, class To, class Convert>
Tensor widened(const std::vector<char>& bytes, const Shape& shape, Convert convert) {
  Tensor out = Tensor::empty(shape, dtype_of<To>);
  To* p = out.data<To>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    From v;
    std::memcpy(&v, bytes.data() + static_cast<size_t>(i) * sizeof(From), sizeof(From));
    p[i] = convert(v);
  }
  return out;
}

// A name as it may appear in a one-line message, whatever the file holds.
std::string printable(std::string_view name) {
  std::string out;
  for (char c : name.substr(0, 120)) out += c >= 32 && c != 127 ? c : '?';
  return name.size() > 120 ? out + "..." : out;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail_input("{}: cannot open: {}", path, std::strerror(errno));
  try {
    struct stat info {};
    if (::fstat(file_, &info) != 0 || !S_ISREG(info.st_mode)) fail_input("{}: not a regular file", path);
    parse_header(static_cast<uint64_t>(info.st_size));
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SafetensorsReader::~SafetensorsReader() { ::close(file_); }

void SafetensorsReader::read_at(void* out, uint64_t bytes, uint64_t offset) const {
  char* p = static_cast<char*>(out);
  while (bytes > 0) {
    ssize_t n = ::pread(file_, p, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_input("{}: cannot read: {}", path_, std::strerror(errno));
    if (n == 0) fail_input("{}: the file became shorter while it was read", path_);
    p += n;
    bytes -= static_cast<uint64_t>(n);
    offset += static_cast<uint64_t>(n);
  }
}

void SafetensorsReader::parse_header(uint64_t file_size) {
  uint64_t length = 0;
  if (file_size < 8)
    fail_input("{}: not a safetensors file: {} bytes, expected at least 8", path_, file_size);
  read_at(&length, 8, 0);
  if (length > kMaxHeader || length > file_size - 8)
    fail_input("{}: not a safetensors file or cut short: header of {} bytes in a file of {}", path_, length,
               file_size);
  std::string text(length, ' ');
  read_at(text.data(), length, 8);
  const uint64_t data_start = 8 + length, data_size = file_size - data_start;

  simdjson::dom::parser parser;
  simdjson::dom::object root;
  if (auto error = parser.parse(simdjson::padded_string(text)).get(root); error != simdjson::SUCCESS)
    fail_input("{}: not a safetensors file: its header is no JSON object ({})", path_,
               simdjson::error_message(error));
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
      continue;
    }
    std::string name = printable(key);
    simdjson::dom::object fields;
    simdjson::dom::array dims, offsets;
    std::string_view dtype;
    if (value.get(fields) != simdjson::SUCCESS || fields["dtype"].get(dtype) != simdjson::SUCCESS ||
        fields["shape"].get(dims) != simdjson::SUCCESS ||
        fields["data_offsets"].get(offsets) != simdjson::SUCCESS)
      fail_input("{}: tensor \"{}\" needs dtype, shape and data_offsets", path_, name);
    const FileType* type = find_type(dtype);
    if (!type) fail_input("{}: tensor \"{}\" has unknown dtype \"{}\"", path_, name, printable(dtype));
    SafetensorsEntry e;
    e.name = std::string(key);
    e.dtype = type->name;
    uint64_t bytes = type->bytes;
    bool too_large = false, has_zero = false;
    for (auto d : dims) {
      int64_t size = 0;
      if (d.get(size) != simdjson::SUCCESS || size < 0)
        fail_input("{}: tensor \"{}\": a size of its shape is no count", path_, name);
      if (e.shape.rank() == Shape::kMaxRank)
        fail_input("{}: tensor \"{}\" has more than {} axes", path_, name, Shape::kMaxRank);
      e.shape.push_back(size);
      has_zero |= size == 0;
      if (size != 0) too_large |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
    }
    // The product of the other sizes must not overflow either: shapes are multiplied in any order later.
    if (too_large || bytes > (uint64_t{1} << 62))
      fail_input("{}: tensor \"{}\" is too large: shape {}", path_, name, e.shape.to_string());
    if (has_zero) bytes = 0;
    uint64_t bounds[2];
    size_t count = 0;
    for (auto o : offsets) {
      if (count == 2 || o.get(bounds[count]) != simdjson::SUCCESS)
        fail_input("{}: tensor \"{}\": data_offsets must be two counts", path_, name);
      ++count;
    }
    if (count != 2) fail_input("{}: tensor \"{}\": data_offsets must be two counts", path_, name);
    if (bounds[0] > bounds[1] || bounds[1] > data_size)
      fail_input("{}: tensor \"{}\": bytes [{}, {}) are outside of the file's {} data bytes (cut short?)",
                 path_, name, bounds[0], bounds[1], data_size);
    if (bounds[1] - bounds[0] != bytes)
      fail_input("{}: tensor \"{}\": shape {} of {} needs {} bytes, got {}", path_, name, e.shape.to_string(),
                 e.dtype, bytes, bounds[1] - bounds[0]);
    e.begin = data_start + bounds[0];
    e.end = data_start + bounds[1];
    entries_.push_back(std::move(e));
  }
  std::sort(entries_.begin(), entries_.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t position = data_start;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const SafetensorsEntry& e = entries_[i];
    if (e.begin != position)
      fail_input("{}: tensor \"{}\" {}", path_, printable(e.name),
                 e.begin < position ? "overlaps another one" : "follows bytes that belong to no tensor");
    position = e.end;
    if (!index_.emplace(e.name, i).second)
      fail_input("{}: tensor \"{}\" is there twice", path_, printable(e.name));
  }
  if (position != file_size)
    fail_input("{}: {} bytes at the end belong to no tensor", path_, file_size - position);
}

const SafetensorsEntry* SafetensorsReader::find(const std::string& name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second];
}

Tensor SafetensorsReader::read(const std::string& name) const {
  const SafetensorsEntry* e = find(name);
  if (!e) fail_input("{}: no tensor \"{}\"", path_, printable(name));
  auto plain = [&](DType dtype) {
    Tensor t = Tensor::empty(e->shape, dtype);
    read_at(t.raw(), e->end - e->begin, e->begin);
    return t;
  };
  auto raw = [&] {
    std::vector<char> bytes(e->end - e->begin);
    read_at(bytes.data(), bytes.size(), e->begin);
    return bytes;
  };
  const std::string& type = e->dtype;
  if (type == "F32") return plain(DType::kF32);
  if (type == "F64") return plain(DType::kF64);
  if (type == "BF16") return plain(DType::kBF16);
  if (type == "I64") return plain(DType::kI64);
  if (type == "I32") return plain(DType::kI32);
  if (type == "U8") return plain(DType::kU8);
  // Only 0 and 1 are values of a C++ bool.
  if (type == "BOOL") return widened<uint8_t, bool>(raw(), e->shape, [](uint8_t v) { return v != 0; });
  if (type == "F16") return widened<uint16_t, float>(raw(), e->shape, half_to_float);
  if (type == "I8") return widened<int8_t, int32_t>(raw(), e->shape, [](int8_t v) { return v; });
  if (type == "I16") return widened<int16_t, int32_t>(raw(), e->shape, [](int16_t v) { return v; });
  if (type == "U16") return widened<uint16_t, int32_t>(raw(), e->shape, [](uint16_t v) { return v; });
  if (type == "U32") return widened<uint32_t, int64_t>(raw(), e->shape, [](uint32_t v) { return v; });
  fail_input("{}: tensor \"{}\" has dtype {}, which is not supported", path_, printable(name), type);
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
                          header.size() == 1 ? "" : ",", json_quote(name), file_type(tensor.dtype()), dims,
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
