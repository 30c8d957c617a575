#include "data/formats/yolo/yaml_load.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr FileKind kYamlFile{"a data.yaml", uint64_t{8} << 20, true};
constexpr size_t kMaxLevels = 100;
constexpr size_t kMaxDirectives = 100;  // libyaml compares each with all earlier ones

// Builds the tree of the first document from libyaml's events. Nodes have numbers,
// so an alias is the number of its anchor's node.
class YamlComposer {
 public:
  YamlComposer(const std::string& path, yaml_document_t& document)
      : path_(path), text_(read_text(path, kYamlFile)), document_(document) {
    if (yaml_document_initialize(&document_, nullptr, nullptr, nullptr, 1, 1) == 0 ||
        yaml_parser_initialize(&parser_) == 0)
      fail("{}: out of memory", path_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text_.data()),
                                 text_.size());
  }
  ~YamlComposer() { yaml_parser_delete(&parser_); }
  YamlComposer& operator=(YamlComposer&&) = delete;

  void compose() {
    check_directives();
    for (bool more = true; more;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        const size_t line = parser_.problem_mark.line;
        fail_at(line, parser_.problem != nullptr ? parser_.problem : "the text cannot be read");
      }
      const std::unique_ptr<yaml_event_t, void (*)(yaml_event_t*)> guard(&event, yaml_event_delete);
      more = take(event);
    }
  }

 private:
  [[noreturn]] void fail_at(size_t line, const std::string& what) const {
    fail_input("{}: line {}: not valid YAML: {}", path_, line + 1, what);
  }

  void check_directives() const {
    size_t count = 0;
    for (size_t at = 0; at < text_.size(); at = text_.find('\n', at), at += at < text_.size())
      if (text_[at] == '%' && ++count > kMaxDirectives)
        fail_input("{}: more than {} directives (lines that begin with %)", path_, kMaxDirectives);
  }

  // Returns false at the end of the document.
  bool take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_SCALAR_EVENT: {
        const auto& scalar = event.data.scalar;
        add(event, scalar.anchor,
            yaml_document_add_scalar(&document_, nullptr, scalar.value, static_cast<int>(scalar.length),
                                     scalar.style));
        return true;
      }
      case YAML_ALIAS_EVENT: {
        const auto found = anchors_.find(reinterpret_cast<const char*>(event.data.alias.anchor));
        if (found == anchors_.end()) fail_at(event.start_mark.line, "found undefined alias");
        place(found->second);
        return true;
      }
      case YAML_SEQUENCE_START_EVENT:
        open(event, event.data.sequence_start.anchor,
             yaml_document_add_sequence(&document_, nullptr, YAML_ANY_SEQUENCE_STYLE));
        return true;
      case YAML_MAPPING_START_EVENT:
        open(event, event.data.mapping_start.anchor,
             yaml_document_add_mapping(&document_, nullptr, YAML_ANY_MAPPING_STYLE));
        return true;
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        open_.pop_back();
        return true;
      case YAML_DOCUMENT_END_EVENT:
      case YAML_STREAM_END_EVENT:
        return false;
      default:
        return true;
    }
  }

  void open(const yaml_event_t& event, const yaml_char_t* anchor, int node) {
    if (open_.size() >= kMaxLevels)
      fail_input("{}: line {}: more than {} levels", path_, event.start_mark.line + 1, kMaxLevels);
    add(event, anchor, node);
    open_.push_back({node, 0});
  }

  void add(const yaml_event_t& event, const yaml_char_t* anchor, int node) {
    if (node == 0) fail("{}: out of memory", path_);
    yaml_document_get_node(&document_, node)->start_mark = event.start_mark;
    if (anchor != nullptr) anchors_[reinterpret_cast<const char*>(anchor)] = node;
    place(node);
  }

  // Adds the node to the open one, as its next element, key or value.
  void place(int node) {
    if (open_.empty()) return;
    Level& level = open_.back();
    int done = 1;
    if (yaml_document_get_node(&document_, level.node)->type == YAML_SEQUENCE_NODE)
      done = yaml_document_append_sequence_item(&document_, level.node, node);
    else if (level.key == 0)
      level.key = node;
    else
      done = yaml_document_append_mapping_pair(&document_, level.node, std::exchange(level.key, 0), node);
    if (done == 0) fail("{}: out of memory", path_);
  }

  struct Level {
    int node = 0, key = 0;  // key: in a mapping, the one that waits for its value
  };
  const std::string& path_;
  std::string text_;
  yaml_document_t& document_;
  yaml_parser_t parser_{};
  std::vector<Level> open_;
  std::map<std::string, int> anchors_;
};

}  // namespace

void load_yaml(const std::string& path, yaml_document_t& document) { YamlComposer(path, document).compose(); }

}  // namespace saccade
