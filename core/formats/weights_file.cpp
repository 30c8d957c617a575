#include "core/formats/weights_file.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>
#include <optional>

#include "core/formats/json.h"
#include "core/formats/safetensors.h"
#include "core/formats/torch_file.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

struct FileType {
  const char* name;
  size_t bytes;
  std::optional<DType> dtype;  // our dtype, if there is one
};
constexpr FileType kTypes[] = {{"F64", 8, DType::kF64},
                               {"F32", 4, DType::kF32},
                               {"F16", 2, {}},
                               {"BF16", 2, DType::kBF16},
                               {"I64", 8, DType::kI64},
                               {"I32", 4, DType::kI32},
                               {"I16", 2, {}},
                               {"I8", 1, {}},
                               {"U64", 8, {}},
                               {"U32", 4, {}},
                               {"U16", 2, {}},
                               {"U8", 1, DType::kU8},
                               {"C64", 8, {}},
                               {"C128", 16, {}},
                               {"BOOL", 1, DType::kBool},
                               {"F8_E4M3", 1, {}},
                               {"F8_E5M2", 1, {}}};

const FileType* find_type(std::string_view name) {
  auto it =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const FileType& t) { return name == t.name; });
  return it == std::end(kTypes) ? nullptr : it;
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
Tensor widened(const Shape& shape, const std::function<void(void*)>& fill, Convert convert) {
  Tensor out = Tensor::empty(shape, dtype_of<To>);
  std::vector<From> raw(static_cast<size_t>(out.numel()));
  fill(raw.data());
  To* p = out.data<To>();
  for (size_t i = 0; i < raw.size(); ++i) p[i] = convert(raw[i]);
  return out;
}

}  // namespace

size_t dtype_bytes(std::string_view dtype) {
  const FileType* type = find_type(dtype);
  return type ? type->bytes : 0;
}

const char* file_dtype(DType dtype) {
  for (const FileType& t : kTypes)
    if (t.dtype == dtype) return t.name;
  fail("[weights] unknown dtype {}", static_cast<int>(dtype));
}

bool is_float_dtype(std::string_view dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "F16" || dtype == "BF16";
}

Tensor decode_tensor(const WeightEntry& entry, const std::string& path,
                     const std::function<void(void* out)>& fill) {
  const std::string& type = entry.dtype;
  // A C++ bool may only hold 0 or 1.
  if (type == "BOOL") return widened<uint8_t, bool>(entry.shape, fill, [](uint8_t v) { return v != 0; });
  if (const FileType* known = find_type(type); known && known->dtype) {
    Tensor t = Tensor::empty(entry.shape, *known->dtype);
    fill(t.raw());
    return t;
  }
  if (type == "F16") return widened<uint16_t, float>(entry.shape, fill, half_to_float);
  if (type == "I8") return widened<int8_t, int32_t>(entry.shape, fill, [](int8_t v) { return v; });
  if (type == "I16") return widened<int16_t, int32_t>(entry.shape, fill, [](int16_t v) { return v; });
  if (type == "U16") return widened<uint16_t, int32_t>(entry.shape, fill, [](uint16_t v) { return v; });
  if (type == "U32") return widened<uint32_t, int64_t>(entry.shape, fill, [](uint32_t v) { return v; });
  fail_input("{}: tensor \"{}\" has dtype {}, which is not supported", path, printable(entry.name), type);
}

const WeightEntry* WeightsFile::find(const std::string& name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second];
}

void WeightsFile::add(WeightEntry entry) {
  if (!index_.emplace(entry.name, entries_.size()).second)
    fail_input("{}: tensor \"{}\" appears twice", path_, printable(entry.name));
  entries_.push_back(std::move(entry));
}

namespace {

// Weights in several files, as Hugging Face writes large models: model.safetensors.index.json says which
// tensor is in which of model-00001-of-00002.safetensors and so on ("weight_map"). Older ones are called
// pytorch_model.bin.index.json.
class IndexedWeights : public WeightsFile {
 public:
  IndexedWeights(const std::string& path, const std::string& key) : WeightsFile(path) {
    for (const auto& [tensor, file] : read_map()) file_of_[tensor] = file;
    const std::string folder = std::filesystem::path(path).parent_path().string();
    const NamedFolder named(folder);
    for (const auto& [tensor, file] : file_of_) {
      std::unique_ptr<WeightsFile>& part = parts_[file];
      if (part) continue;
      if (const std::string why = named.refusal(file); !why.empty())
        fail_input("{}: \"{}\": {}", path, printable(file), why);
      part = open_weights_part((std::filesystem::path(folder) / file).string(), key);
    }
    for (const auto& [file, part] : parts_)
      for (const WeightEntry& entry : part->entries()) {
        const auto found = file_of_.find(entry.name);
        if (found == file_of_.end())
          fail_input("{}: does not name tensor \"{}\" of {}", path, printable(entry.name), part->path());
        add(entry);  // refuses a name that two files have
      }
    for (const auto& [tensor, file] : file_of_)
      if (!parts_.at(file)->find(tensor))
        fail_input("{}: tensor \"{}\" is not in {}", path, printable(tensor), parts_.at(file)->path());
    if (!parts_.empty()) section_ = parts_.begin()->second->section();
  }

  Tensor read(const std::string& name) const override {
    const auto found = file_of_.find(name);
    if (found == file_of_.end()) fail_input("{}: no tensor \"{}\"", path_, printable(name));
    return parts_.at(found->second)->read(name);
  }
  void verify() const override {
    for (const auto& [file, part] : parts_) part->verify();
  }

 private:
  std::map<std::string, std::string> read_map() {
    std::map<std::string, std::string> files;
    bool has_map = false;
    JsonFile json(path_);
    json.root_fields([&](std::string_view key, JsonValue value) {
      if (key != "weight_map") return;
      has_map = json.fields(value, [&](std::string_view tensor, JsonValue file) {
        const std::string name(tensor);
        std::string text;
        if (!json.read(file, text)) json.fail_here("weight_map: expected the name of a file");
        if (!files.emplace(name, text).second) json.fail_here("weight_map: a tensor appears twice");
      });
    });
    if (!has_map)
      fail_input(
          "{}: has no \"weight_map\", expected an index of weights (model.safetensors.index.json) or a weights file",
          path_);
    return files;
  }

  std::map<std::string, std::string> file_of_;
  std::map<std::string, std::unique_ptr<WeightsFile>> parts_;
};

// Refuses NAME-00001-of-00002.EXTENSION.
void refuse_weight_part(const std::string& path) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kDigits = 5;
  const std::filesystem::path file(path);
  const std::string stem = file.stem().string();
  const size_t at = stem.rfind(kOf);
  if (at == std::string::npos || at < kDigits + 1 || stem.size() != at + kOf.size() + kDigits) return;
  const std::string number = stem.substr(at - kDigits, kDigits), count = stem.substr(at + kOf.size());
  const auto is_number = [](const std::string& text) {
    return text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(number) || !is_number(count) || stem[at - kDigits - 1] != '-' || count <= "00001") return;
  const std::string name = stem.substr(0, at - kDigits - 1) + file.extension().string() + ".index.json";
  fail_input("{}: is part {} of {} of a model, expected the index of all parts ({})", path, number, count,
             (file.parent_path() / name).string());
}

}  // namespace

std::unique_ptr<WeightsFile> open_weights(const std::string& path, const std::string& key) {
  if (path.ends_with(".json")) return std::make_unique<IndexedWeights>(path, key);
  refuse_weight_part(path);
  return open_weights_part(path, key);
}

std::unique_ptr<WeightsFile> open_weights_part(const std::string& path, const std::string& key) {
  std::string start;
  {
    InputFile file(path, kWeightsFile);
    start.resize(std::min<uint64_t>(file.size(), 16));
    file.read_at(start.data(), start.size(), 0);
  }
  // The header is below 100 MB, so the upper bytes of its length are 0. The lower ones may look like the
  // start of a pickle.
  if (start.size() > 8 && start.substr(5, 3) == std::string(3, '\0') && start[8] == '{') {
    if (!key.empty())
      fail_input("{}: has no key \"{}\": it is a safetensors file, and --key is for .pth files", path,
                 printable(key));
    return std::make_unique<SafetensorsReader>(path);
  }
  if (looks_like_torch_file(start)) return open_torch_file(path, key);
  if (start.empty()) fail_input("{}: the file is empty", path);
  fail_input("{}: neither a safetensors file nor a PyTorch file (torch.save, zip container or pickle stream)",
             path);
}

}  // namespace saccade
