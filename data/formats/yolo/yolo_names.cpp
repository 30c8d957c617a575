#include "data/formats/yolo/yolo_names.h"

#include <yaml.h>

#include <memory>
#include <optional>
#include <set>

#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/yolo/yaml_load.h"

namespace saccade {
namespace {

// A document in memory; its nodes refer to each other by number, so aliases cost nothing.
class YamlDocument {
 public:
  explicit YamlDocument(const std::string& path) : path_(path) { load_yaml(path, *document_); }
  YamlDocument(const YamlDocument&) = delete;
  YamlDocument& operator=(const YamlDocument&) = delete;

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
  [[noreturn]] void fail_at(int index, const std::string& what) {
    fail_input("{}: line {}: {}", path_, node(index).start_mark.line + 1, what);
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

// A list, or a mapping of 0, 1, ... to names in any order.
std::vector<std::string> read_names(YamlDocument& yaml, int index) {
  const yaml_node_t& node = yaml.node(index);
  std::vector<std::string> names;
  if (node.type == YAML_SEQUENCE_NODE) {
    for (const int* i = node.data.sequence.items.start; i < node.data.sequence.items.top; ++i) {
      const auto name = yaml.text(*i);
      if (!name) yaml.fail_at(*i, "the name of a class must be a word");
      names.push_back(*name);
    }
    return names;
  }
  if (node.type != YAML_MAPPING_NODE) yaml.fail_at(index, "names: expected a list of the classes");
  const auto count = static_cast<size_t>(node.data.mapping.pairs.top - node.data.mapping.pairs.start);
  std::vector<std::optional<std::string>> found(count);
  for (const auto* p = node.data.mapping.pairs.start; p < node.data.mapping.pairs.top; ++p) {
    const auto key = yaml.text(p->key), name = yaml.text(p->value);
    const auto number = key ? finite_number(*key) : std::nullopt;
    const size_t at =
        number && *number >= 0 && *number < static_cast<double>(count) ? static_cast<size_t>(*number) : count;
    if (at == count || static_cast<double>(at) != *number || found[at])
      yaml.fail_at(p->key, fmt::format("names: expected each of the numbers 0 to {} once", count - 1));
    if (!name) yaml.fail_at(p->value, "the name of a class must be a word");
    found[at] = *name;
  }
  for (const auto& name : found) names.push_back(*name);
  return names;
}

}  // namespace

YoloYaml read_yolo_yaml(const std::string& path) {
  YamlDocument yaml(path);
  YoloYaml out;
  bool has_names = false;
  std::set<std::string> seen;
  const yaml_node_t& root = yaml.root();
  for (const auto* p = root.data.mapping.pairs.start; p < root.data.mapping.pairs.top; ++p) {
    const auto key = yaml.text(p->key);
    if (!key) continue;
    // Of what nobody reads here, the last one counts, as for others that read such files.
    const bool is_read =
        *key == "names" || *key == "path" || *key == "train" || *key == "val" || *key == "test";
    if (is_read && !seen.insert(*key).second)
      yaml.fail_at(p->key, fmt::format("\"{}\" appears twice", shortened(*key)));
    if (*key == "names") {
      out.names = read_names(yaml, p->value);
      has_names = true;
    } else if (*key == "path") {
      out.path = yaml.text(p->value).value_or("");
    } else if (*key == "train" || *key == "val" || *key == "test") {
      const auto folder = yaml.text(p->value);
      if (!folder) yaml.fail_at(p->value, fmt::format("{}: expected one folder of images", *key));
      if (!folder->empty() && *folder != "null" && *folder != "~") out.folders[*key] = *folder;
    }
  }
  if (!has_names) fail_input("{}: has no \"names\" of the classes", path);
  check_class_list(out.names, path);
  return out;
}

}  // namespace saccade
