#include "core/formats/torch_section.h"

#include <string_view>

#include "core/files/text.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

using Kind = PickleNode::Kind;

bool has_tensors(const PickleGraph& graph, const PickleNode& dict) {
  const auto& pairs = graph.pairs(dict);
  for (size_t i = 1; i < pairs.size(); i += 2)
    if (graph[pairs[i]].kind == Kind::kTensor) return true;
  return false;
}

// Returns the node at a path like "ema.module", whose keys may contain dots; null if there is none.
const PickleNode* node_at(const PickleGraph& graph, const PickleNode& from, std::string_view path) {
  if (const PickleNode* whole = graph.find(from, path)) return whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const PickleNode* next = graph.find(from, path.substr(0, dot));
  return next ? node_at(graph, *next, path.substr(dot + 1)) : nullptr;
}

std::string keys_of(const PickleGraph& graph, const PickleNode& dict) {
  constexpr size_t kMax = 20;
  std::string keys;
  const auto& pairs = graph.pairs(dict);
  for (size_t i = 0; i + 1 < pairs.size() && i < kMax; i += 2)
    if (graph[pairs[i]].kind == Kind::kString)
      keys += (keys.empty() ? "" : ", ") + printable(graph[pairs[i]].text);
  return keys;
}

// Fails for a pickled module rather than its tensors: nothing in a file is ever loaded as code.
[[noreturn]] void fail_object(const std::string& path, const std::string& what, const std::string& type) {
  const bool is_ultralytics = type.starts_with("ultralytics.") || type.starts_with("models.yolo");
  fail_input(
      "{}: {} is a pickled object ({}), which is never loaded, expected a dictionary of tensors; {}", path,
      what, printable(type),
      is_ultralytics
          ? "Ultralytics' models have layers and names of their own, so use the official weights of RT-DETR "
            "(docs/official_checkpoints.md)"
          : "write one where its code is installed: torch.save(model.state_dict(), FILE)");
}

}  // namespace

const PickleNode& torch_section(const PickleGraph& graph, const std::string& path, const std::string& key,
                                std::string& section) {
  const PickleNode& root = graph[graph.root];
  if (!key.empty()) {
    const PickleNode* node = node_at(graph, root, key);
    if (!node) fail_input("{}: has no \"{}\" (its keys: {})", path, printable(key), keys_of(graph, root));
    if (node->kind == Kind::kObject) fail_object(path, "\"" + printable(key) + "\"", node->text);
    if (!has_tensors(graph, *node))
      fail_input("{}: \"{}\" holds no tensors (its keys: {})", path, printable(key), keys_of(graph, *node));
    section = key;
    return *node;
  }
  for (const char* usual : {"ema.module", "model_ema", "model", "state_dict", "module"}) {
    const PickleNode* node = node_at(graph, root, usual);
    if (node && node->kind == Kind::kDict && has_tensors(graph, *node)) {
      section = usual;
      return *node;
    }
  }
  if (has_tensors(graph, root)) return root;
  if (root.kind == Kind::kObject) fail_object(path, "it", root.text);
  for (const char* usual : {"ema", "model_ema", "model", "state_dict", "module"})
    if (const PickleNode* node = graph.find(root, usual); node && node->kind == Kind::kObject)
      fail_object(path, fmt::format("\"{}\"", usual), node->text);
  fail_input(
      "{}: no dictionary of tensors at the top level or under ema.module, model_ema, model, state_dict or module (its keys: {}); "
      "--key names another",
      path, keys_of(graph, root));
}

}  // namespace saccade
