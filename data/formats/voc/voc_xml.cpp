#include "data/formats/voc/voc_xml.h"

#include <expat.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

constexpr FileKind kXmlFile{"a Pascal VOC annotation (XML)", uint64_t{64} << 20};
constexpr size_t kMaxDepth = 32, kMaxText = 4096;

// Follows the elements from <annotation> on; only those whose path is known are read.
class VocReader {
 public:
  explicit VocReader(const std::string& path)
      : path_(path), parser_(XML_ParserCreate(nullptr), XML_ParserFree) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), &VocReader::begin, &VocReader::end);
    XML_SetCharacterDataHandler(parser_.get(), &VocReader::text);
    // Entities are of no use here, and a way to make a small file large.
    XML_SetStartDoctypeDeclHandler(parser_.get(), [](void* self, const char*, const char*, const char*, int) {
      static_cast<VocReader*>(self)->stop("a DOCTYPE, expected none");
    });
  }

  VocFile read() {
    const std::string text = read_text(path_, kXmlFile);
    const bool ok = XML_Parse(parser_.get(), text.data(), static_cast<int>(text.size()), 1) == XML_STATUS_OK;
    if (!stopped_.empty()) fail_input("{}", stopped_);
    if (!ok)
      fail_input("{}: line {}: no XML: {}", path_, line(), XML_ErrorString(XML_GetErrorCode(parser_.get())));
    if (root_ != "annotation") fail_input("{}: line 1: expected <annotation>, found <{}>", path_, root_);
    return std::move(file_);
  }

 private:
  static void begin(void* self, const char* name, const char**) {
    static_cast<VocReader*>(self)->begin(name);
  }
  static void end(void* self, const char*) { static_cast<VocReader*>(self)->end(); }
  static void text(void* self, const char* data, int size) {
    auto& reader = *static_cast<VocReader*>(self);
    if (reader.text_.size() < kMaxText) reader.text_.append(data, static_cast<size_t>(size));
  }

  void begin(std::string_view name) {
    if (depth_.size() >= kMaxDepth)
      return stop(fmt::format("more than {} elements in each other", kMaxDepth));
    if (depth_.empty()) root_ = name.substr(0, 100);
    depth_.push_back(element_.size());
    element_.append("/").append(name.substr(0, kMaxText));
    text_.clear();
    if (element_ == "/annotation/object") {
      object_ = {};
      corners_ = {};
      object_line_ = line();
    }
  }

  void end() {
    if (depth_.empty()) return;
    std::string value = text_;
    const auto first = value.find_first_not_of(" \t\r\n"), last = value.find_last_not_of(" \t\r\n");
    value = first == std::string::npos ? "" : value.substr(first, last - first + 1);
    if (element_ == "/annotation/filename") file_.file_name = value;
    if (element_ == "/annotation/size/width") file_.width = side(value);
    if (element_ == "/annotation/size/height") file_.height = side(value);
    if (element_ == "/annotation/object/name") object_.name = value;
    constexpr const char* kCorners[] = {"xmin", "ymin", "xmax", "ymax"};
    for (size_t i = 0; i < 4; ++i)
      if (element_ == std::string("/annotation/object/bndbox/") + kCorners[i])
        corners_[i] = finite_number(value);
    if (element_ == "/annotation/object") end_object();
    element_.resize(depth_.back());
    depth_.pop_back();
    text_.clear();
  }

  void end_object() {
    std::string missing = object_.name.empty() ? "a name" : "";
    if (!std::all_of(corners_.begin(), corners_.end(), [](auto& c) { return c.has_value(); }))
      missing = "a bndbox with the numbers xmin, ymin, xmax and ymax";
    if (!missing.empty()) {
      file_.problems.push_back(
          fmt::format("{}: line {}: the object has no {}", path_, object_line_, missing.substr(2)));
      return;
    }
    for (size_t i = 0; i < 4; ++i) object_.corners[i] = *corners_[i];
    file_.objects.push_back(object_);
  }

  static int64_t side(const std::string& value) {
    const auto number = finite_number(value);
    return number && *number >= 1 && *number <= 1 << 20 ? static_cast<int64_t>(*number) : 0;
  }
  uint64_t line() const { return XML_GetCurrentLineNumber(parser_.get()); }
  void stop(const std::string& what) {
    if (stopped_.empty()) stopped_ = fmt::format("{}: line {}: {}", path_, line(), what);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  std::string path_, element_, root_, text_, stopped_;
  std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser_;
  std::vector<size_t> depth_;  // lengths of element_ above each element
  VocFile file_;
  VocObject object_;
  std::array<std::optional<double>, 4> corners_{};
  uint64_t object_line_ = 0;
};

}  // namespace

VocFile read_voc_xml(const std::string& path) { return VocReader(path).read(); }

}  // namespace saccade
