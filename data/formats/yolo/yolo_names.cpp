#include "data/formats/yolo/yolo_names.h"

#include <yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "data/formats/yolo/yaml_load.h"
#include "data/formats/yolo/yolo_sets.h"

namespace saccade {
namespace {

constexpr FileKind kDarknetFile{"an obj.data", uint64_t{1} << 20};

// A document in memory; its nodes refer to each other by number, so aliases need no copies.
class YamlDocument {
 public:
  explicit YamlDocument(const std::string& path) : path_(path) { load_yaml(path, *document_); }
  YamlDocument& operator=(YamlDocument&&) = delete;

  const yaml_node_t& root() {
    const yaml_node_t* node = yaml_document_get_root_node(document_.get());
    if (node == nullptr || node->type != YAML_MAPPING_NODE)
      fail_input("{}: expected a mapping with the names of the classes", path_);
    return *node;
  }
  const yaml_node_t& node(int index) { return *yaml_document_get_node(document_.get(), index); }
  std::optional<std::string> text(int index) {
    const yaml_node_t& n = node(index);
    if (n.type != YAML_SCALAR_NODE) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(n.data.scalar.value), n.data.scalar.length);
  }
  // The elements of a list.
  static std::span<const int> elements(const yaml_node_t& node) {
    return {node.data.sequence.items.start, node.data.sequence.items.top};
  }
  static std::span<const yaml_node_pair_t> pairs(const yaml_node_t& node) {
    return {node.data.mapping.pairs.start, node.data.mapping.pairs.top};
  }
  int64_t line(int index) { return static_cast<int64_t>(node(index).start_mark.line) + 1; }
  [[noreturn]] void fail_at(int index, const std::string& what) {
    fail_input("{}: line {}: {}", path_, line(index), what);
  }

 private:
  struct Delete {
    void operator()(yaml_document_t* document) const {
      yaml_document_delete(document);
      delete document;
    }
  };
  std::string path_;
  std::unique_ptr<yaml_document_t, Delete> document_{new yaml_document_t{}};
};

// Reads a list, or a mapping of 0, 1, ... to names in any order.
std::vector<std::string> read_names(YamlDocument& yaml, int index) {
  const yaml_node_t& node = yaml.node(index);
  std::vector<std::string> names;
  if (node.type == YAML_SEQUENCE_NODE) {
    for (const int i : yaml.elements(node)) {
      const auto name = yaml.text(i);
      if (!name) yaml.fail_at(i, "a class name must be a string");
      names.push_back(*name);
    }
    return names;
  }
  if (node.type != YAML_MAPPING_NODE) yaml.fail_at(index, "names: expected a list of the classes");
  const size_t count = yaml.pairs(node).size();
  std::vector<std::optional<std::string>> found(count);
  for (const yaml_node_pair_t& p : yaml.pairs(node)) {
    const auto key = yaml.text(p.key), name = yaml.text(p.value);
    const auto number = key ? finite_number(*key) : std::nullopt;
    const size_t at =
        number && *number >= 0 && *number < static_cast<double>(count) ? static_cast<size_t>(*number) : count;
    if (at == count || static_cast<double>(at) != *number || found[at])
      yaml.fail_at(p.key, fmt::format("names: expected each of the numbers 0 to {} once", count - 1));
    if (!name) yaml.fail_at(p.value, "a class name must be a string");
    found[at] = *name;
  }
  for (const auto& name : found) names.push_back(*name);
  return names;
}

// Reads a folder or a list of images, or several of them.
std::vector<YoloEntry> read_entries(YamlDocument& yaml, const std::string& split, int index) {
  const yaml_node_t& node = yaml.node(index);
  std::vector<YoloEntry> entries;
  auto add = [&](int at) {
    const auto text = yaml.text(at);
    if (!text)
      yaml.fail_at(
          at, fmt::format("{}: expected a folder of images, a list of images, or several of these", split));
    if (!text->empty() && *text != "null" && *text != "~") entries.push_back({*text, yaml.line(at)});
  };
  if (node.type == YAML_SEQUENCE_NODE)
    std::ranges::for_each(yaml.elements(node), add);
  else
    add(index);
  return entries;
}

// Returns whether it is a word or a list of words.
bool is_words(YamlDocument& yaml, int index) {
  const yaml_node_t& node = yaml.node(index);
  if (node.type != YAML_SEQUENCE_NODE) return node.type == YAML_SCALAR_NODE;
  return std::ranges::all_of(yaml.elements(node), [&](int i) { return yaml.text(i).has_value(); });
}

// Handles keys that are not part of the format: another usual name of a split is used if the split itself is
// missing; other keys that name images are reported.
void take_others(const std::map<std::string, std::vector<YoloEntry>>& others, const std::string& path,
                 YoloYaml& out) {
  for (const auto& [key, entries] : others) {
    if (entries.empty()) continue;
    const SplitNames* split = split_by_name(key);
    const std::string place = existing_place(path, out.path, entries[0].text);
    if (split != nullptr) {
      const std::string& name = split->names[0];
      if (!out.splits.try_emplace(name, entries).second)
        out.notes.push_back(
            fmt::format("line {}: {} is ignored because {} exists", entries[0].line, key, name));
    } else if (is_folder(place) ? holds_image(place) : place.ends_with(".txt")) {
      out.notes.push_back(fmt::format("line {}: {} is not train, val or test, and is ignored",
                                      entries[0].line, shortened(key)));
    }
  }
}

// Reads a list of two numbers.
void read_key_points(YamlDocument& yaml, int index, YoloYaml& out) {
  const yaml_node_t& node = yaml.node(index);
  std::vector<double> numbers;
  if (node.type == YAML_SEQUENCE_NODE)
    for (const int i : yaml.elements(node))
      numbers.push_back(finite_number(yaml.text(i).value_or("")).value_or(0));
  if (numbers.size() != 2 || numbers[0] < 1 || numbers[0] > 10000 || numbers[0] != std::floor(numbers[0]) ||
      (numbers[1] != 2 && numbers[1] != 3))
    yaml.fail_at(index,
                 "kpt_shape: expected the count of key points and 2 or 3 numbers for each, like [17, 3]");
  out.key_points = static_cast<int64_t>(numbers[0]);
  out.key_point_numbers = static_cast<int64_t>(numbers[1]);
}

const std::set<std::string> kReadKeys{"names", "path", "train", "val", "test", "kpt_shape", "nc"};

}  // namespace

bool is_yolo_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

bool is_darknet_data(const std::string& path) { return path.ends_with(".data"); }

bool is_class_list(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name == "classes.txt" || name == "obj.names";
}

YoloYaml read_yolo_yaml(const std::string& path) {
  YamlDocument yaml(path);
  YoloYaml out;
  bool has_names = false;
  std::set<std::string> seen;
  std::optional<std::pair<int, double>> count;  // with its position
  const yaml_node_t& root = yaml.root();
  std::map<std::string, std::vector<YoloEntry>> others;
  for (const yaml_node_pair_t& p : yaml.pairs(root)) {
    const auto key = yaml.text(p.key);
    if (!key) continue;
    // For keys that are not read here, the last one counts, as in other programs that read such files.
    if (kReadKeys.contains(*key) && !seen.insert(*key).second)
      yaml.fail_at(p.key, fmt::format("\"{}\" appears twice", shortened(*key)));
    if (*key == "names") {
      out.names = read_names(yaml, p.value);
      has_names = true;
    } else if (*key == "path") {
      out.path = yaml.text(p.value).value_or("");
    } else if (*key == "kpt_shape") {
      read_key_points(yaml, p.value, out);
    } else if (*key == "nc") {
      const std::string text = yaml.text(p.value).value_or("a list");
      if (const auto number = finite_number(text))
        count = {p.value, *number};
      else if (!text.empty() && text != "null" && text != "~")
        yaml.fail_at(p.value,
                     fmt::format("nc: expected the number of classes, found \"{}\"", shortened(text)));
    } else if (*key == "train" || *key == "val" || *key == "test") {
      if (auto entries = read_entries(yaml, *key, p.value); !entries.empty())
        out.splits[*key] = std::move(entries);
    } else if (is_words(yaml, p.value)) {
      others[*key] = read_entries(yaml, *key, p.value);
    }
  }
  take_others(others, path, out);
  if (!has_names) fail_input("{}: has no \"names\" of the classes", path);
  check_class_list(out.names, path);
  if (count && count->second != static_cast<double>(out.names.size()))
    yaml.fail_at(count->first,
                 fmt::format("nc: {:g}, but there are {} names", count->second, out.names.size()));
  return out;
}

YoloYaml read_darknet_data(const std::string& path) {
  YoloYaml out;
  std::string names;
  TextLine count;  // number of classes, if given
  for (const TextLine& line : text_lines(read_text(path, kDarknetFile))) {
    const size_t equals = line.text.find('=');
    if (line.text.starts_with('#') || line.text.starts_with(';')) continue;
    if (equals == std::string::npos)
      fail_input("{}: line {}: expected key = value, found \"{}\"", path, line.number, shortened(line.text));
    const std::string key(trimmed(std::string_view(line.text).substr(0, equals))),
        value(trimmed(std::string_view(line.text).substr(equals + 1)));
    if (value.empty()) continue;
    if (key == "names") names = value;
    if (key == "classes") count = {line.number, value};
    for (const auto& [split, keys] : std::map<std::string, std::set<std::string>>{
             {"train", {"train"}}, {"val", {"valid", "val", "validation"}}, {"test", {"test"}}})
      if (keys.contains(key)) {
        if (out.splits.contains(split)) fail_input("{}: line {}: {} appears twice", path, line.number, key);
        out.splits[split] = {{value, line.number}};
      }
  }
  if (names.empty()) fail_input("{}: has no \"names\", the file with the class names", path);
  const std::string found = existing_place(path, "", names);
  if (found.empty()) fail_input("{}: names: \"{}\": no such file", path, names);
  out.names = read_class_list(found);
  if (count.number > 0 && count.text != std::to_string(out.names.size()))
    fail_input("{}: line {}: classes: {}, but there are {} names in {}", path, count.number,
               shortened(count.text), out.names.size(), found);
  return out;
}

YoloYaml read_yolo_description(const std::string& path) {
  if (is_yolo_yaml(path)) return read_yolo_yaml(path);
  if (is_darknet_data(path)) return read_darknet_data(path);
  YoloYaml out;
  out.names = read_class_list(path);
  return out;
}

}  // namespace saccade
