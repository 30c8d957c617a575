#include "core/formats/weight_index.h"

#include <filesystem>
#include <map>

#include "core/formats/json.h"

namespace saccade {
namespace {

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
        add(entry);  // refuses one that two files have
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
        if (!files.emplace(name, text).second) json.fail_here("weight_map: a tensor is there twice");
      });
    });
    if (!has_map)
      fail_input(
          "{}: has no \"weight_map\", expected an index of weights (model.safetensors.index.json) or a file of them",
          path_);
    return files;
  }

  std::map<std::string, std::string> file_of_;
  std::map<std::string, std::unique_ptr<WeightsFile>> parts_;
};

}  // namespace

std::unique_ptr<WeightsFile> open_weight_index(const std::string& path, const std::string& key) {
  return std::make_unique<IndexedWeights>(path, key);
}

// NAME-00001-of-00002.EXTENSION
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
  fail_input("{}: is part {} of {} of a model, expected the index of all of them ({})", path, number, count,
             (file.parent_path() / name).string());
}

}  // namespace saccade
