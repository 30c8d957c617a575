#include "data/formats/voc/voc_xml.h"

#include <algorithm>
#include <optional>

#include "core/files/text.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/xml_reader.h"

namespace saccade {
namespace {

constexpr FileKind kXmlFile{"a Pascal VOC annotation (XML)", uint64_t{64} << 20, true};

class VocReader : public XmlReader {
 public:
  explicit VocReader(const std::string& path) : XmlReader(path, kXmlFile) {}

  ImageAnnotation read() {
    walk("annotation");
    return std::move(file_);
  }

 private:
  void begin(const XmlAttributes&) override {
    if (element() != "/annotation/object") return;
    object_ = {};
    corners_ = {};
    fault_.clear();
    object_line_ = line();
  }

  void end(const std::string& value) override {
    if (element() == "/annotation/filename") file_.file_name = value;
    if (element() == "/annotation/size/width") file_.width = image_side(value);
    if (element() == "/annotation/size/height") file_.height = image_side(value);
    if (element() == "/annotation/object/name") {
      if (!object_.name.empty()) fault_ = "the object has two names";
      object_.name = value;
    }
    if (element() == "/annotation/object/difficult") read_difficult(value);
    constexpr const char* kCorners[] = {"xmin", "ymin", "xmax", "ymax"};
    for (size_t i = 0; i < 4; ++i)
      if (element() == std::string("/annotation/object/bndbox/") + kCorners[i]) {
        if (corners_[i]) fault_ = fmt::format("the object has two bndboxes, or {} twice", kCorners[i]);
        corners_[i] = finite_number(value);
      }
    if (element() == "/annotation/object") end_object();
  }

  void read_difficult(const std::string& value) {
    const std::string word = lower_case(value);
    object_.is_difficult = word == "1" || word == "true";
    if (!object_.is_difficult && word != "0" && word != "false" && word != "unspecified" && !word.empty())
      fault_ = fmt::format("difficult must be 0 or 1, found \"{}\"", shortened(value));
  }

  void end_object() {
    std::string missing = object_.name.empty() ? "a name" : "";
    if (!std::all_of(corners_.begin(), corners_.end(), [](auto& c) { return c.has_value(); }))
      missing = "a bndbox with the numbers xmin, ymin, xmax and ymax";
    if (!missing.empty()) fault_ = fmt::format("the object has no {}", missing.substr(2));
    if (!fault_.empty()) {
      file_.problems.push_back(fmt::format("{}: line {}: {}", path(), object_line_, fault_));
      return;
    }
    object_.box = {*corners_[0], *corners_[1], *corners_[2], *corners_[3]};
    object_.number = static_cast<int64_t>(object_line_);
    file_.objects.push_back(object_);
  }

  ImageAnnotation file_;
  ImageObject object_;
  std::array<std::optional<double>, 4> corners_{};
  uint64_t object_line_ = 0;
  std::string fault_;  // of the object
};

}  // namespace

ImageAnnotation read_voc_xml(const std::string& path) { return VocReader(path).read(); }

bool is_voc_xml(const std::string& path) {
  const std::string head = head_of(path, kXmlFile);
  const size_t at = head.find("<annotation");
  return at != std::string::npos && head.find("<annotations") != at;
}

}  // namespace saccade
