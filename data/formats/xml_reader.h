// Reads untrusted XML (expat): without DOCTYPE, entities or deep nesting.
#pragma once

#include <expat.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"

namespace saccade {

// The attributes of an element.
class XmlAttributes {
 public:
  explicit XmlAttributes(const char* const* pairs) : pairs_(pairs) {}
  // "" if there is none.
  std::string text(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;

 private:
  const char* const* pairs_;
};

// Walks through a file; derived classes handle elements by their path: "/annotation/object/name".
class XmlReader {
 public:
  virtual ~XmlReader() = default;
  XmlReader& operator=(XmlReader&&) = delete;

 protected:
  XmlReader(const std::string& path, const FileKind& kind);
  // Throws InputError naming the file and the line if it is no XML, has a DOCTYPE, or another root.
  void walk(std::string_view root);

  virtual void begin(const XmlAttributes& attributes) = 0;
  virtual void end(const std::string& value) = 0;  // the element's text without surrounding blanks

  const std::string& path() const { return path_; }
  const std::string& element() const { return element_; }
  uint64_t line() const;
  // Reports an error of the file; it is read no further.
  void stop(const std::string& what);
  // All that is needed was read; the file is read no further.
  void finish();

 private:
  void begin_element(std::string_view name, const XmlAttributes& attributes);
  void end_element();
  // Says why the text is no valid XML.
  std::string fault() const;

  std::string path_;
  FileKind kind_;
  std::string element_, root_, text_, stopped_;
  std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser_;
  bool is_finished_ = false;
  std::vector<size_t> depth_;  // lengths of element_ above each element
};

}  // namespace saccade
