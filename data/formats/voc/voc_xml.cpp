#include "data/formats/voc/voc_xml.h"

#include <expat.h>
#include <iconv.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

constexpr FileKind kXmlFile{"a Pascal VOC annotation (XML)", uint64_t{64} << 20};
constexpr size_t kMaxDepth = 32, kMaxText = 4096;

// The encoding that the file says it has, in small letters; "": none that expat would not know by itself.
std::string foreign_encoding(const std::string& text) {
  const std::string head = text.substr(0, std::min(text.find("?>"), size_t{300}));
  const size_t at = head.find("encoding=");
  if (!head.starts_with("<?xml") || at == std::string::npos || at + 10 >= head.size()) return "";
  const size_t end = head.find(head[at + 9], at + 10);
  if (end == std::string::npos) return "";
  const std::string name = lower_case(head.substr(at + 10, end - at - 10));
  if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") != std::string::npos) return "";
  for (const char* known : {"utf-8", "utf-16", "iso-8859-1", "us-ascii"})
    if (name == known) return "";
  return name == "gb2312" || name == "gbk" ? "gb18030" : name;  // what tools call so is often more than that
}

// As UTF-8; nothing where the encoding is not known or the text has none of its characters.
std::optional<std::string> as_utf8(const std::string& text, const std::string& encoding) {
  const iconv_t converter = iconv_open("UTF-8", encoding.c_str());
  if (converter == reinterpret_cast<iconv_t>(-1)) return std::nullopt;
  std::string in = text, out(4 * text.size() + 16, '\0');
  char *from = in.data(), *to = out.data();
  size_t left = in.size(), room = out.size();
  const bool ok = iconv(converter, &from, &left, &to, &room) != static_cast<size_t>(-1) && left == 0;
  iconv_close(converter);
  if (!ok) return std::nullopt;
  out.resize(out.size() - room);
  return out;
}

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
    std::string text = read_text(path_, kXmlFile);
    if (const std::string encoding = foreign_encoding(text); !encoding.empty())
      if (auto converted = as_utf8(text, encoding)) {
        text = std::move(*converted);
        XML_SetEncoding(parser_.get(), "UTF-8");
      }
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
    if (element_ == "/annotation/object/difficult") object_.is_difficult = value == "1" || value == "true";
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
