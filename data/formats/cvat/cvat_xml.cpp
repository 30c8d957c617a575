#include "data/formats/cvat/cvat_xml.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>

#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/xml_reader.h"

namespace saccade {
namespace {

constexpr FileKind kCvatFile{"an XML file of CVAT", uint64_t{1} << 30, true};
constexpr std::string_view kImageElement = "/annotations/image", kLabelsElement = "/labels",
                           kLabelElement = "/labels/label";

// Returns the upright box around one that is rotated by degrees about its centre.
Box around_turned(const Box& box, double degrees) {
  const double angle = degrees * std::numbers::pi / 180, c = std::abs(std::cos(angle)),
               s = std::abs(std::sin(angle));
  const double x = (box.x1 + box.x2) / 2, y = (box.y1 + box.y2) / 2;
  const double dx = (box.width() * c + box.height() * s) / 2, dy = (box.width() * s + box.height() * c) / 2;
  return {round_pixels(x - dx), round_pixels(y - dy), round_pixels(x + dx), round_pixels(y + dy)};
}

Box around_ellipse(double x, double y, double rx, double ry, double degrees) {
  const double angle = degrees * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  const double dx = std::hypot(rx * c, ry * s), dy = std::hypot(rx * s, ry * c);
  return {round_pixels(x - dx), round_pixels(y - dy), round_pixels(x + dx), round_pixels(y + dy)};
}

// Parses "1,2;3,4" as 1, 2, 3, 4; empty if a number is invalid.
std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(",;"), text.size());
    const std::optional<double> value = finite_number(trimmed(text.substr(0, end)));
    if (!value) return {};
    numbers.push_back(*value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

// Converts a count or a position in pixels. Throws InputError for fractions and for values that no image has.
int64_t whole_pixels(double value) {
  if (!(std::abs(value) <= 1e9) || value != std::floor(value))
    fail_input("mask: {}, expected a whole number of pixels up to 1e9", value);
  return static_cast<int64_t>(value);
}

// The runs of a <mask> go along the rows of its window (left, top, width, height). Throws InputError.
Mask mask_in(const std::array<double, 4>& window, const std::vector<double>& rle, ImageSize image) {
  if (rle.empty()) fail_input("mask: expected run lengths like rle=\"3, 5, 7\"");
  std::vector<int64_t> counts;
  for (const double count : rle) counts.push_back(whole_pixels(count));
  const int64_t left = whole_pixels(window[0]), top = whole_pixels(window[1]);
  const ImageSize size{whole_pixels(window[3]), whole_pixels(window[2])};
  if (size.height > image.height || size.width > image.width)
    fail_input("mask: {} x {} pixels do not fit in its image of {} x {}", size.width, size.height,
               image.width, image.height);
  // A Mask goes along columns, so these are the runs of the transposed picture.
  const Mask turned = Mask::from_counts({size.width, size.height}, counts);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.height * size.width));
  for (const Mask::Run& run : turned.runs())
    std::fill(pixels.begin() + run.begin, pixels.begin() + run.end, uint8_t{1});
  return Mask::from_bitmap(size, pixels).crop(-top, -left, image);
}

class CvatReader : public XmlReader {
 public:
  CvatReader(const std::string& path, bool masks, bool first_alone = false)
      : XmlReader(path, kCvatFile), masks_(masks), first_alone_(first_alone) {}

  CvatFile read() {
    walk("annotations");
    return std::move(file_);
  }

 private:
  void begin(const XmlAttributes& attributes) override {
    if (element() == "/annotations/track")
      return stop("a <track> of a video, expected the images of \"CVAT for images 1.1\"");
    if (element() == kImageElement) {
      is_named_ = !attributes.text("name").empty();
      if (!is_named_) return add_problem("an image without a name");
      file_.images.push_back({.name = attributes.text("name"),
                              .subset = attributes.text("subset"),
                              .width = image_side(attributes.text("width")),
                              .height = image_side(attributes.text("height")),
                              .line = static_cast<int64_t>(line())});
      if (first_alone_) finish();
      return;
    }
    const std::string_view parent =
        std::string_view(element()).substr(0, std::min(kImageElement.size(), element().size()));
    const std::string_view shape = std::string_view(element()).substr(parent.size());
    if (parent == kImageElement && is_named_ && shape.size() > 1 && shape[0] == '/' && shape.rfind('/') == 0)
      add_shape(shape.substr(1), attributes);
    if (element().ends_with(kLabelsElement)) listed_.clear();
    if (element().ends_with(kLabelElement)) label_ = {};
  }

  void end(const std::string& value) override {
    if (element().ends_with("/labels/label/name")) label_.name = value;
    if (element().ends_with("/labels/label/parent")) label_.is_part = !value.empty();
    if (!element().ends_with(kLabelElement) || label_.is_part || label_.name.empty()) return;
    if (!listed_.insert(label_.name).second)
      file_.notes.push_back(fmt::format("line {}: the label \"{}\" is listed twice and counts once", line(),
                                        printable(label_.name)));
    if (std::ranges::find(file_.labels, label_.name) == file_.labels.end())
      file_.labels.push_back(label_.name);
  }

  void add_shape(std::string_view shape, const XmlAttributes& a) {
    if (shape != "box" && shape != "polygon" && shape != "ellipse" && shape != "mask")
      return file_.shapes.leave_out(fmt::format("{}: line {}: <{}>", path(), line(), shape.substr(0, 40)));
    ImageObject object{.name = a.text("label"), .number = static_cast<int64_t>(line())};
    if (!read_shape(shape, a, object)) return;
    if (object.name.empty()) return add_problem(fmt::format("a <{}> without a label", shape));
    file_.shapes.boxed += shape != "box" || a.number("rotation").value_or(0) != 0;
    file_.images.back().objects.push_back(std::move(object));
  }

  // Reads the box, and the mask if it has one. Returns false, and adds a problem, if numbers are missing.
  bool read_shape(std::string_view shape, const XmlAttributes& a, ImageObject& object) {
    if (shape == "polygon") {
      std::vector<double> points = numbers_of(a.text("points"));
      if (points.size() < 4 || points.size() % 2 != 0) {
        add_problem("a <polygon> without points like \"x,y;x,y;x,y\"");
        return false;
      }
      object.box = box_around(points);
      object.segmentation = polygon_mask(std::move(points));
      return true;
    }
    const std::array<const char*, 4> names = shape == "box" ? std::array{"xtl", "ytl", "xbr", "ybr"}
                                             : shape == "ellipse"
                                                 ? std::array{"cx", "cy", "rx", "ry"}
                                                 : std::array{"left", "top", "width", "height"};
    std::array<double, 4> n{};
    for (size_t i = 0; i < 4; ++i) {
      const std::optional<double> value = a.number(names[i]);
      if (!value) {
        add_problem(fmt::format("a <{}> without the numbers {}, {}, {} and {}", shape, names[0], names[1],
                                names[2], names[3]));
        return false;
      }
      n[i] = *value;
    }
    if (!a.text("rotation").empty() && !a.number("rotation")) {
      add_problem(
          fmt::format("a <{}> whose rotation \"{}\" is not a number", shape, printable(a.text("rotation"))));
      return false;
    }
    const double degrees = a.number("rotation").value_or(0);
    if (shape == "ellipse") {
      if (n[2] < 0 || n[3] < 0) {
        add_problem("an <ellipse> with a negative radius");
        return false;
      }
      object.box = around_ellipse(n[0], n[1], n[2], n[3], degrees);
    } else if (shape == "mask") {
      object.box = box_of_corner(n);
      if (masks_) read_mask(n, a, object);
    } else {
      const Box upright{n[0], n[1], n[2], n[3]};
      object.box = degrees == 0 ? upright : around_turned(upright, degrees);
    }
    return true;
  }

  void read_mask(const std::array<double, 4>& window, const XmlAttributes& a, ImageObject& object) {
    const CvatImage& image = file_.images.back();
    try {
      auto mask = std::make_shared<Segmentation>();
      mask->runs = mask_in(window, numbers_of(a.text("rle")), {image.height, image.width});
      object.segmentation = std::move(mask);
    } catch (const InputError& e) {
      object.mask_fault = fmt::format("{}: line {}: {}", path(), line(), e.what());
    }
  }

  void add_problem(const std::string& what) {
    file_.problems.push_back(fmt::format("{}: line {}: {}", path(), line(), what));
  }

  struct Label {
    std::string name;
    bool is_part = false;  // of a skeleton
  };
  bool masks_, first_alone_;
  CvatFile file_;
  Label label_;
  std::set<std::string> listed_;  // labels of the current list; a project and its tasks have one each
  bool is_named_ = false;         // the image has a name
};

}  // namespace

CvatFile read_cvat_xml(const std::string& path, bool masks) { return CvatReader(path, masks).read(); }

CvatFile first_cvat_image(const std::string& path) { return CvatReader(path, false, true).read(); }

bool names_subsets(const std::string& path) {
  return read_text(path, kCvatFile).find(" subset=") != std::string::npos;
}

bool is_cvat_xml(const std::string& path) {
  return path.ends_with(".xml") && is_file(path) &&
         head_of(path, kCvatFile).find("<annotations") != std::string::npos;
}

}  // namespace saccade
