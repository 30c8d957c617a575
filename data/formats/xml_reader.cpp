#include "data/formats/xml_reader.h"

#include <iconv.h>
#include <cstdint>

#include <algorithm>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

constexpr size_t kMaxDepth = 32, kMaxText = 4096;

// Returns the encoding that the file declares, in lower case; "" if none or if expat itself knows it.
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
  return name == "gb2312" || name == "gbk" ? "gb18030" : name;  // tools often use these names for it
}

// Converts to UTF-8; nothing if the encoding is unknown or the text is invalid in it.
std::optional<std::string> as_utf8(const std::string& text, const std::string& encoding) {
  iconv_t converter = iconv_open("UTF-8", encoding.c_str());
  if (reinterpret_cast<intptr_t>(converter) == -1) return std::nullopt;
  std::string in = text, out(4 * text.size() + 16, '\0');
  char *from = in.data(), *to = out.data();
  size_t left = in.size(), room = out.size();
  const bool ok = iconv(converter, &from, &left, &to, &room) != static_cast<size_t>(-1) && left == 0;
  iconv_close(converter);
  if (!ok) return std::nullopt;
  out.resize(out.size() - room);
  return out;
}

}  // namespace

std::string XmlAttributes::text(std::string_view name) const {
  for (const char* const* pair = pairs_; *pair != nullptr; pair += 2)
    if (name == pair[0]) return pair[1];
  return "";
}

std::optional<double> XmlAttributes::number(std::string_view name) const {
  return finite_number(trimmed(text(name)));
}

XmlReader::XmlReader(const std::string& path, const FileKind& kind)
    : path_(path), kind_(kind), parser_(XML_ParserCreate(nullptr), XML_ParserFree) {
  XML_SetUserData(parser_.get(), this);
  XML_SetElementHandler(
      parser_.get(),
      [](void* self, const char* name, const char** attributes) {
        static_cast<XmlReader*>(self)->begin_element(name, XmlAttributes(attributes));
      },
      [](void* self, const char*) { static_cast<XmlReader*>(self)->end_element(); });
  XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* data, int size) {
    auto& reader = *static_cast<XmlReader*>(self);
    if (reader.text_.size() < kMaxText) reader.text_.append(data, static_cast<size_t>(size));
  });
  // Entities are not needed here, and could make a small file large.
  XML_SetStartDoctypeDeclHandler(parser_.get(), [](void* self, const char*, const char*, const char*, int) {
    static_cast<XmlReader*>(self)->stop("a DOCTYPE, expected none");
  });
}

void XmlReader::walk(std::string_view root) {
  std::string text = read_text(path_, kind_);
  if (const std::string encoding = foreign_encoding(text); !encoding.empty())
    if (auto converted = as_utf8(text, encoding)) {
      text = std::move(*converted);
      XML_SetEncoding(parser_.get(), "UTF-8");
    }
  constexpr size_t kPiece = size_t{1} << 24;
  bool ok = true;
  for (size_t at = 0; ok && stopped_.empty() && !is_finished_;) {
    const size_t size = std::min(kPiece, text.size() - at);
    const bool is_last = at + size == text.size();
    ok = XML_Parse(parser_.get(), text.data() + at, static_cast<int>(size), is_last ? 1 : 0) == XML_STATUS_OK;
    at += size;
    if (is_last) break;
  }
  if (!stopped_.empty()) fail_input("{}", stopped_);
  if (!ok && !is_finished_) fail_input("{}: line {}: not valid XML: {}", path_, line(), fault());
  if (root_ != root) fail_input("{}: line 1: expected <{}>, found <{}>", path_, root, root_);
}

uint64_t XmlReader::line() const {
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
  return XML_GetCurrentLineNumber64(parser_.get());
#else
  return XML_GetCurrentLineNumber(parser_.get());
#endif
}

// Expat's own texts are terse: "no element found" is also said of a file that ends too early.
std::string XmlReader::fault() const {
  const std::string open = element_.empty() ? "" : element_.substr(depth_.back() + 1, 100);
  switch (const XML_Error code = XML_GetErrorCode(parser_.get())) {
    case XML_ERROR_NO_ELEMENTS:
      return open.empty() ? "the file has no element" : fmt::format("the file ends inside <{}>", open);
    case XML_ERROR_UNCLOSED_TOKEN:
    case XML_ERROR_PARTIAL_CHAR:
      return "the file ends in the middle of a tag or character";
    case XML_ERROR_UNCLOSED_CDATA_SECTION:
      return "the file ends inside a CDATA section";
    case XML_ERROR_SYNTAX:
    case XML_ERROR_INVALID_TOKEN:
      return "a character that is not allowed here, or not in the file's encoding";
    case XML_ERROR_TAG_MISMATCH:
      return fmt::format("the end tag does not match <{}>", open);
    case XML_ERROR_DUPLICATE_ATTRIBUTE:
      return "a tag with the same attribute twice";
    case XML_ERROR_JUNK_AFTER_DOC_ELEMENT:
      return "text after the end of the first element";
    case XML_ERROR_UNDEFINED_ENTITY:
      return "an unknown entity (&NAME;)";
    case XML_ERROR_BAD_CHAR_REF:
      return "a reference to an invalid character (&#NUMBER;)";
    case XML_ERROR_UNKNOWN_ENCODING:
      return "the declared encoding is unknown";
    case XML_ERROR_INCORRECT_ENCODING:
      return "the declared encoding is not that of the file";
    case XML_ERROR_MISPLACED_XML_PI:
      return "an XML declaration (<?xml ...?>) that is not at the start";
    case XML_ERROR_XML_DECL:
      return "an invalid XML declaration (<?xml ...?>)";
    default:
      return XML_ErrorString(code);
  }
}

void XmlReader::stop(const std::string& what) {
  if (stopped_.empty()) stopped_ = fmt::format("{}: line {}: {}", path_, line(), what);
  XML_StopParser(parser_.get(), XML_FALSE);
}

void XmlReader::finish() {
  is_finished_ = true;
  XML_StopParser(parser_.get(), XML_FALSE);
}

void XmlReader::begin_element(std::string_view name, const XmlAttributes& attributes) {
  if (depth_.size() >= kMaxDepth) return stop(fmt::format("more than {} nested elements", kMaxDepth));
  if (depth_.empty()) root_ = name.substr(0, 100);
  depth_.push_back(element_.size());
  element_.append("/").append(name.substr(0, kMaxText));
  text_.clear();
  begin(attributes);
}

void XmlReader::end_element() {
  if (depth_.empty()) return;
  end(std::string(trimmed(text_)));
  element_.resize(depth_.back());
  depth_.pop_back();
  text_.clear();
}

}  // namespace saccade
