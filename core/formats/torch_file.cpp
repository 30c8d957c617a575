#include "core/formats/torch_file.h"

#include <cstring>
#include <functional>
#include <set>

#include "core/formats/pickle.h"
#include "core/formats/torch_section.h"
#include "core/formats/zip_archive.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

using Kind = PickleNode::Kind;

constexpr uint64_t kMaxElements = uint64_t{1} << 48;  // of a tensor

// The location of a storage's bytes.
struct StoredData {
  std::string dtype;  // "" for an unknown class of storages
  uint64_t elements = 0;
  uint64_t place = 0;                        // legacy: position in the file
  const ZipArchive::Entry* entry = nullptr;  // zip
};

// A container knows what to read and where the storages are.
class Container {
 public:
  virtual ~Container() = default;
  virtual PickleGraph read_graph() = 0;
  // Finds the storages that the graph names.
  virtual void locate(std::map<std::string, StoredData>& storages) = 0;
  virtual void read(const StoredData& storage, void* out, uint64_t bytes, uint64_t offset) = 0;
  virtual uint64_t file_size() const = 0;
  virtual void verify() const {}
};

// ---- zip --------------------------------------------------------------------------------------------------

class ZipContainer : public Container {
 public:
  explicit ZipContainer(const std::string& path) : path_(path), archive_(path) {
    constexpr std::string_view kPickle = "/data.pkl";
    for (const auto& [name, entry] : archive_.entries()) {
      if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
      if (!prefix_.empty()) fail_input("{}: has two data.pkl entries", path_);
      prefix_ = name.substr(0, name.size() - kPickle.size() + 1);
    }
  }

  PickleGraph read_graph() override {
    const auto& entries = archive_.entries();
    if (prefix_.empty())
      fail_input("{}: a zip archive without a data.pkl, expected one that torch.save wrote", path_);
    if (entries.contains(prefix_ + "constants.pkl"))
      fail_input("{}: a TorchScript program, expected a dictionary of tensors (torch.save of a state_dict)",
                 path_);
    if (auto order = entries.find(prefix_ + "byteorder"); order != entries.end()) {
      std::string text(std::min<uint64_t>(order->second.bytes, 16), ' ');
      archive_.read(order->second, text.data(), text.size(), 0);
      if (text != "little") fail_input("{}: byte order \"{}\", expected little", path_, printable(text));
    }
    const ZipArchive::Entry& pickle = entries.at(prefix_ + "data.pkl");
    PickleInput input(path_, pickle.bytes, std::bind_front(&ZipArchive::read, &archive_, std::cref(pickle)));
    return read_pickle(input);
  }

  void locate(std::map<std::string, StoredData>& storages) override {
    for (auto& [key, storage] : storages) {
      auto it = archive_.entries().find(prefix_ + "data/" + key);
      if (it == archive_.entries().end()) fail_input("{}: storage \"{}\" is missing", path_, printable(key));
      if (storage.dtype.empty()) continue;
      uint64_t bytes = storage.elements * dtype_bytes(storage.dtype);
      if (it->second.bytes != bytes)
        fail_input("{}: storage \"{}\" has {} bytes, expected {} ({} elements of {})", path_, printable(key),
                   it->second.bytes, bytes, storage.elements, storage.dtype);
      storage.entry = &it->second;
    }
  }

  void read(const StoredData& storage, void* out, uint64_t bytes, uint64_t offset) override {
    archive_.read(*storage.entry, out, bytes, offset);
  }
  uint64_t file_size() const override { return archive_.file_size(); }
  void verify() const override { archive_.verify(); }

 private:
  std::string path_, prefix_;  // prefix_: "archive/"
  ZipArchive archive_;
};

// ---- legacy -----------------------------------------------------------------------------------------------

class LegacyContainer : public Container {
 public:
  explicit LegacyContainer(const std::string& path)
      : file_(path, kWeightsFile),
        input_(path, file_.size(),
               [this](void* out, uint64_t bytes, uint64_t offset) { file_.read_at(out, bytes, offset); }) {}

  PickleGraph read_graph() override {
    constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    PickleGraph magic = read_pickle(input_);
    if (magic[magic.root].kind != Kind::kLong || magic[magic.root].text != kMagic)
      fail_input("{}: a pickle that torch.save did not write, expected a .pth file or safetensors",
                 file_.path());
    PickleGraph version = read_pickle(input_);
    if (version[version.root].kind != Kind::kInt || version[version.root].integer != 1001)
      fail_input("{}: the version of the pickle stream is not 1001", file_.path());
    PickleGraph system = read_pickle(input_);
    const PickleNode* little = system.find(system[system.root], "little_endian");
    if (!little || little->kind != Kind::kBool || !little->integer)
      fail_input("{}: written on a big-endian machine, expected little-endian", file_.path());
    return read_pickle(input_);
  }

  void locate(std::map<std::string, StoredData>& storages) override {
    PickleGraph keys = read_pickle(input_);
    if (keys[keys.root].kind != Kind::kList) input_.damaged("the keys of the storages are not a list");
    uint64_t position = input_.position();
    std::set<std::string> found;
    for (uint32_t index : keys[keys.root].items) {
      const PickleNode& key = keys[index];
      auto it = key.kind == Kind::kString ? storages.find(key.text) : storages.end();
      if (it == storages.end() || it->second.dtype.empty() || !found.insert(key.text).second)
        fail_input("{}: storage \"{}\" cannot be used: not referenced, listed twice or of an unknown type",
                   file_.path(), printable(key.text));
      StoredData& storage = it->second;
      uint64_t elements = 0, bytes = storage.elements * dtype_bytes(storage.dtype);
      if (file_.size() - position < 8)
        fail_input("{}: storage \"{}\" is cut off", file_.path(), printable(key.text));
      file_.read_at(&elements, 8, position);
      position += 8;
      if (elements != storage.elements || bytes > file_.size() - position)
        fail_input("{}: storage \"{}\" has {} elements of {}, expected {} and {} bytes in the file",
                   file_.path(), printable(key.text), elements, storage.dtype, storage.elements, bytes);
      storage.place = position;
      position += bytes;
    }
    for (const auto& [key, storage] : storages)
      if (!found.contains(key)) fail_input("{}: storage \"{}\" is missing", file_.path(), printable(key));
  }

  void read(const StoredData& storage, void* out, uint64_t bytes, uint64_t offset) override {
    file_.read_at(out, bytes, storage.place + offset);
  }
  uint64_t file_size() const override { return file_.size(); }

 private:
  InputFile file_;
  PickleInput input_;
};

// ---- tensors ----------------------------------------------------------------------------------------------

// Returns safetensors' name of "torch.FloatStorage" or "torch.float32"; "" if it is not known.
std::string dtype_of_global(const std::string& global) {
  static const std::map<std::string, std::string> kNames{{"torch.DoubleStorage", "F64"},
                                                         {"torch.FloatStorage", "F32"},
                                                         {"torch.HalfStorage", "F16"},
                                                         {"torch.BFloat16Storage", "BF16"},
                                                         {"torch.LongStorage", "I64"},
                                                         {"torch.IntStorage", "I32"},
                                                         {"torch.ShortStorage", "I16"},
                                                         {"torch.CharStorage", "I8"},
                                                         {"torch.ByteStorage", "U8"},
                                                         {"torch.BoolStorage", "BOOL"},
                                                         {"torch.UntypedStorage", "U8"},
                                                         {"torch.storage.UntypedStorage", "U8"},
                                                         {"torch.uint16", "U16"},
                                                         {"torch.uint32", "U32"},
                                                         {"torch.uint64", "U64"},
                                                         {"torch.float8_e4m3fn", "F8_E4M3"},
                                                         {"torch.float8_e5m2", "F8_E5M2"},
                                                         {"torch.ComplexFloatStorage", "C64"},
                                                         {"torch.ComplexDoubleStorage", "C128"}};
  auto it = kNames.find(global);
  return it == kNames.end() ? "" : it->second;
}

class TorchFile : public WeightsFile {
 public:
  TorchFile(const std::string& path, const std::string& key, std::unique_ptr<Container> container)
      : WeightsFile(path), container_(std::move(container)) {
    PickleGraph graph = container_->read_graph();
    collect_storages(graph);
    container_->locate(storages_);
    collect_tensors(graph, key);
    collect_scalars(graph);
  }

  Tensor read(const std::string& name) const override {
    const WeightEntry* e = find(name);
    if (!e) fail_input("{}: no tensor \"{}\"", path_, printable(name));
    return decode_tensor(*e, path_, [&](void* out) { fill(*e, views_.at(name), out); });
  }
  void verify() const override { container_->verify(); }

 private:
  // A tensor's place in its storage, in elements of its own dtype.
  struct View {
    const StoredData* storage = nullptr;
    uint64_t offset = 0, extent = 0;  // extent: from the first element to the end of the last one
    std::vector<uint64_t> strides;
    bool dense = false;
  };

  void collect_storages(const PickleGraph& graph) {
    for (const PickleNode& node : graph.nodes) {
      if (node.kind != Kind::kStorage) continue;
      StoredData s;
      s.dtype = dtype_of_global(graph[node.items[0]].text);
      uint64_t bytes = 0;
      if (node.integer < 0 ||
          __builtin_mul_overflow(static_cast<uint64_t>(node.integer),
                                 std::max<uint64_t>(dtype_bytes(s.dtype), 1), &bytes) ||
          bytes > container_->file_size())
        fail_input("{}: storage \"{}\" claims {} elements in a file of {} bytes", path_, printable(node.text),
                   node.integer, container_->file_size());
      s.elements = static_cast<uint64_t>(node.integer);
      auto [it, fresh] = storages_.emplace(node.text, s);
      if (!fresh && (it->second.dtype != s.dtype || it->second.elements != s.elements))
        fail_input("{}: storage \"{}\" has two types or sizes", path_, printable(node.text));
    }
  }

  // Returns the numbers in a tuple, such as a tensor's sizes.
  std::vector<uint64_t> counts(const PickleGraph& graph, uint32_t index, const std::string& name,
                               const char* what) {
    const PickleNode& tuple = graph[index];
    std::vector<uint64_t> out;
    if (tuple.kind != Kind::kTuple || tuple.items.size() > Shape::kMaxRank)
      fail_input("{}: tensor \"{}\": its {} are not a tuple of at most {}", path_, printable(name), what,
                 Shape::kMaxRank);
    for (uint32_t i : tuple.items) {
      if (graph[i].kind != Kind::kInt || graph[i].integer < 0 ||
          graph[i].integer > static_cast<int64_t>(kMaxElements))
        fail_input("{}: tensor \"{}\": one of its {} is not a whole number from 0 to {}", path_,
                   printable(name), what, kMaxElements);
      out.push_back(static_cast<uint64_t>(graph[i].integer));
    }
    return out;
  }

  void add_tensor(const PickleGraph& graph, const PickleNode& tensor, const std::string& name,
                  uint64_t& total) {
    const PickleNode& storage_node = graph[tensor.items[0]];
    const StoredData& storage = storages_.at(storage_node.text);
    WeightEntry entry;
    entry.name = name;
    entry.dtype = tensor.items.size() > 4 ? dtype_of_global(graph[tensor.items[4]].text) : storage.dtype;
    if (entry.dtype.empty())
      fail_input("{}: tensor \"{}\" has an unknown type ({})", path_, printable(name),
                 printable(graph[storage_node.items[0]].text));
    std::vector<uint64_t> sizes = counts(graph, tensor.items[2], name, "sizes");
    View view;
    view.storage = &storage;
    view.strides = counts(graph, tensor.items[3], name, "strides");
    const PickleNode& offset = graph[tensor.items[1]];
    if (offset.kind != Kind::kInt || offset.integer < 0 || view.strides.size() != sizes.size())
      fail_input("{}: tensor \"{}\": a negative offset, or {} strides for {} sizes", path_, printable(name),
                 view.strides.size(), sizes.size());
    view.offset = static_cast<uint64_t>(offset.integer);
    // Sizes and strides are below 2^48, so the products fit 128 bits.
    using Wide = unsigned __int128;
    uint64_t element = dtype_bytes(entry.dtype),
             held = storage.elements * dtype_bytes(storage.dtype) / element;
    Wide count = 1, last = 0;
    bool empty = false;
    view.dense = true;
    for (size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] != 1) view.dense = view.dense && view.strides[i] == count;
      empty = empty || sizes[i] == 0;
      last += static_cast<Wide>(sizes[i] > 0 ? sizes[i] - 1 : 0) * view.strides[i];
      count *= std::max<uint64_t>(sizes[i], 1);
      if (count > kMaxElements)
        fail_input("{}: tensor \"{}\" has more than {} elements", path_, printable(name), kMaxElements);
    }
    if (empty) count = 0;
    // No element may occur twice, or a few bytes could expand to any amount of memory.
    if (count > held || (count > 0 && view.offset + last >= held))
      fail_input("{}: tensor \"{}\" reaches outside of its storage of {} elements, or overlaps itself", path_,
                 printable(name), held);
    for (uint64_t size : sizes) entry.shape.push_back(static_cast<int64_t>(size));
    view.extent = count > 0 ? static_cast<uint64_t>(last) + 1 : 0;
    // Names may share storages (the heads of a decoder do), but only up to a limit.
    constexpr uint64_t kSharing = 16;
    total += static_cast<uint64_t>(count) * element;
    if (total > kSharing * container_->file_size() + (1 << 20))
      fail_input("{}: its tensors take more than {} times the size of the file", path_, kSharing);
    add(std::move(entry));
    views_.emplace(name, std::move(view));
  }

  void collect_tensors(const PickleGraph& graph, const std::string& wanted) {
    const auto& pairs = graph.pairs(torch_section(graph, path_, wanted, section_));
    uint64_t total = 0;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const PickleNode &key = graph[pairs[i]], &value = graph[pairs[i + 1]];
      if (key.kind == Kind::kString && value.kind == Kind::kTensor) add_tensor(graph, value, key.text, total);
    }
  }

  // Collects numbers and strings in nested dictionaries, within the limits of what people write.
  void collect_scalars(const PickleGraph& graph) {
    constexpr size_t kMax = 4096;
    constexpr int kDepth = 4;
    size_t steps = 0;
    auto visit = [&](auto&& self, const PickleNode& dict, const std::string& prefix, int depth) -> void {
      const auto& pairs = graph.pairs(dict);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        const PickleNode &key = graph[pairs[i]], &value = graph[pairs[i + 1]];
        if (++steps > 16 * kMax || scalars_.size() >= kMax) return;
        if (key.kind != Kind::kString || key.text.size() > 256) continue;
        std::string name = prefix + key.text;
        if (value.kind == Kind::kBool) scalars_[name] = value.integer != 0;
        if (value.kind == Kind::kInt) scalars_[name] = value.integer;
        if (value.kind == Kind::kFloat) scalars_[name] = value.number;
        if (value.kind == Kind::kString && value.text.size() <= 4096) scalars_[name] = value.text;
        if (depth < kDepth) self(self, value, name + ".", depth + 1);
      }
    };
    visit(visit, graph[graph.root], "", 1);
  }

  // Copies a view's elements in row-major order.
  void fill(const WeightEntry& e, const View& view, void* out) const {
    uint64_t element = dtype_bytes(e.dtype);
    if (view.extent == 0) return;
    if (view.dense) return container_->read(*view.storage, out, view.extent * element, view.offset * element);
    std::vector<char> source(view.extent * element);
    container_->read(*view.storage, source.data(), source.size(), view.offset * element);
    std::vector<int64_t> index(view.strides.size(), 0);
    char* p = static_cast<char*>(out);
    uint64_t at = 0;
    for (int64_t i = 0, count = e.shape.numel(); i < count; ++i, p += element) {
      std::memcpy(p, source.data() + at * element, element);
      for (size_t d = index.size(); d-- > 0;) {  // go to the next element
        at += view.strides[d];
        if (++index[d] < e.shape[static_cast<int>(d)]) break;
        at -= view.strides[d] * static_cast<uint64_t>(index[d]);
        index[d] = 0;
      }
    }
  }

  std::unique_ptr<Container> container_;
  std::map<std::string, StoredData> storages_;
  std::map<std::string, View> views_;
};

}  // namespace

bool looks_like_torch_file(std::string_view start) {
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) return true;
  return start.size() > 2 && start[0] == '\x80' && start[1] >= 0 && start[1] <= 5;
}

std::unique_ptr<WeightsFile> open_torch_file(const std::string& path, const std::string& key) {
  char first = 0;
  InputFile(path, kWeightsFile).read_at(&first, 1, 0);
  std::unique_ptr<Container> container;
  if (first == 'P')
    container = std::make_unique<ZipContainer>(path);
  else
    container = std::make_unique<LegacyContainer>(path);
  return std::make_unique<TorchFile>(path, key, std::move(container));
}

}  // namespace saccade
