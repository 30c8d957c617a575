// Boxes in a table (RFC 4180): a header, then a line for each box with its image, its class and its corners in pixels. Columns are
// found by the names that are usual, in any order; others are passed over. An image without objects has a line without a class and
// corners. Classes are numbered from 1 in the order of their names, images in the order of the file.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/files/file.h"
#include "core/tensor/error.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"

namespace saccade {
namespace {

enum Column { kImage, kClass, kX1, kY1, kX2, kY2, kWidth, kHeight, kColumns };

// The first is the one that messages name.
const std::array<std::vector<std::string_view>, kColumns> kColumnNames{{
    {"file_name", "filename", "image", "image_name", "image_path", "path", "file"},
    {"class", "class_name", "label", "name", "category"},
    {"x1", "xmin", "x_min", "left"},
    {"y1", "ymin", "y_min", "top"},
    {"x2", "xmax", "x_max", "right"},
    {"y2", "ymax", "y_max", "bottom"},
    {"width", "image_width"},
    {"height", "image_height"},
}};

// Cuts the text into lines of fields; a field in quotes may hold commas, quotes (doubled) and line ends.
class CsvText {
 public:
  explicit CsvText(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  // False at the end. Empty lines are passed over; a quote that does not end is a problem.
  bool next(std::vector<std::string>& fields, std::string& problem) {
    do {
      if (at_ >= text_.size()) return false;
      line_ = ++lines_;
      fields.assign(1, "");
      problem.clear();
      read_line(fields, problem);
    } while (fields.size() == 1 && fields[0].empty() && problem.empty());
    return true;
  }
  int64_t line() const { return line_; }

 private:
  void read_line(std::vector<std::string>& fields, std::string& problem) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++at_;
        return;
      }
      if (c == ',')
        fields.emplace_back();
      else if (c == '"' && fields.back().empty())
        read_quoted(fields.back(), problem);
      else if (c != '\r')
        fields.back() += c;
    }
  }
  // From the first quote to the last.
  void read_quoted(std::string& field, std::string& problem) {
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      lines_ += c == '\n';
      if (c != '"') {
        field += c;
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += '"';
        ++at_;
      } else {
        return;
      }
    }
    problem = "the quote is not closed";
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 0, lines_ = 0;
};

std::array<std::optional<size_t>, kColumns> find_columns(const std::vector<std::string>& header,
                                                         const std::string& path) {
  std::array<std::optional<size_t>, kColumns> columns;
  for (size_t i = 0; i < header.size(); ++i) {
    std::string name = header[i];
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (size_t k = 0; k < kColumns; ++k) {
      if (std::find(kColumnNames[k].begin(), kColumnNames[k].end(), name) == kColumnNames[k].end()) continue;
      if (columns[k])
        fail_input("{}: line 1: \"{}\" and \"{}\" say the same", path, header[*columns[k]], header[i]);
      columns[k] = i;
    }
  }
  for (size_t k = 0; k < kWidth; ++k)
    if (!columns[k])
      fail_input("{}: line 1: no column \"{}\", expected a header like \"file_name,class,x1,y1,x2,y2\"", path,
                 kColumnNames[k][0]);
  return columns;
}

class CsvReader {
 public:
  CsvReader(const DataPaths& paths, const ProblemReport& report) : paths_(paths), report_(report) {}

  GroundTruth read() {
    const std::string text = read_text(paths_.annotations, kTextFile);
    CsvText csv(text);
    std::vector<std::string> fields;
    std::string problem;
    if (!csv.next(fields, problem)) fail_input("{}: the file is empty", paths_.annotations);
    columns_ = find_columns(fields, paths_.annotations);
    const size_t count = fields.size();
    while (csv.next(fields, problem)) {
      if (problem.empty() && fields.size() != count)
        problem = fmt::format("expected {} fields, found {}", count, fields.size());
      if (problem.empty()) problem = add_line(fields);
      if (!problem.empty()) report_(fmt::format("{}: line {}: {}", paths_.annotations, csv.line(), problem));
    }
    number();
    return std::move(truth_);
  }

 private:
  // What is wrong with the line; "": nothing.
  std::string add_line(const std::vector<std::string>& fields) {
    auto field = [&](size_t column) -> const std::string& { return fields[*columns_[column]]; };
    if (field(kImage).empty()) return "expected the name of an image";
    const auto [it, is_new] = images_.try_emplace(field(kImage), truth_.images.size());
    if (is_new) truth_.images.push_back({.id = std::ssize(truth_.images) + 1, .file_name = field(kImage)});
    ImageInfo& image = truth_.images[it->second];
    if (columns_[kWidth] && columns_[kHeight]) {
      const auto width = finite_number(field(kWidth)), height = finite_number(field(kHeight));
      if (width && height && *width >= 1 && *height >= 1 && *width <= 1 << 20 && *height <= 1 << 20) {
        image.width = static_cast<int64_t>(*width);
        image.height = static_cast<int64_t>(*height);
      }
    }
    bool is_empty = field(kClass).empty();
    for (size_t k = kX1; k <= kY2; ++k) is_empty = is_empty && field(k).empty();
    if (is_empty) return "";
    if (field(kClass).empty()) return "expected a class";
    std::array<double, 4> corners{};
    for (size_t k = 0; k < 4; ++k) {
      const auto value = finite_number(field(kX1 + k));
      if (!value) return fmt::format("expected a number of pixels, found \"{}\"", field(kX1 + k));
      corners[k] = *value;
    }
    const auto [x1, y1, x2, y2] = corners;
    if (x1 >= x2 || y1 >= y2) return "expected x1 < x2 and y1 < y2";
    const double width = round_pixels(x2 - x1), height = round_pixels(y2 - y1);
    const auto name = classes_.try_emplace(field(kClass), classes_.size()).first;
    truth_.annotations.push_back({.id = std::ssize(truth_.annotations) + 1,
                                  .image_id = image.id,
                                  .category_id = static_cast<int64_t>(name->second),  // numbered at the end
                                  .bbox = {x1, y1, width, height},
                                  .area = width * height});
    return "";
  }

  void number() {
    std::vector<std::string> names(classes_.size());
    for (const auto& [name, place] : classes_) names[place] = name;
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    truth_.categories = number_classes(sorted, paths_);
    const std::map<std::string, int64_t> ids = ids_by_name(truth_.categories);
    std::set<std::string> unknown;
    std::erase_if(truth_.annotations, [&](Annotation& a) {
      const std::string& name = names[static_cast<size_t>(a.category_id)];
      const auto id = ids.find(name);
      if (id == ids.end()) {
        if (unknown.insert(name).second)
          report_(fmt::format("{}: the class \"{}\" is not one of the {} that are known", paths_.annotations,
                              name, ids.size()));
        return true;
      }
      a.category_id = id->second;
      return false;
    });
  }

  const DataPaths& paths_;
  const ProblemReport& report_;
  std::array<std::optional<size_t>, kColumns> columns_;
  std::unordered_map<std::string, size_t> images_, classes_;
  GroundTruth truth_;
};

// Of Roboflow: a table in each split's folder; a table for each split; one table.
DataSplits find_csv(const std::string& folder) {
  DataSplits splits;
  auto add = [&](std::optional<DataPaths>& split, const std::string& file,
                 const std::vector<std::string>& images) {
    if (!split && is_file(joined(folder, file)))
      split = DataPaths{.annotations = joined(folder, file), .images = first_folder(images)};
  };
  const std::vector<std::string> common{joined(folder, "images"), folder};
  for (const SplitNames& split : split_names())
    for (const std::string& name : split.names) {
      const std::string own = joined(folder, name);
      add(splits.*split.split, name + "/_annotations.csv", {own});
      std::vector<std::string> images{joined(folder, "images/" + name), own};
      images.insert(images.end(), common.begin(), common.end());
      add(splits.*split.split, name + ".csv", images);
      add(splits.*split.split, name + "_labels.csv", images);
    }
  if (splits.train || splits.val || splits.test) return splits;
  for (const char* name : {"annotations.csv", "labels.csv", "boxes.csv", "_annotations.csv"})
    add(splits.train, name, common);
  return splits;
}

[[maybe_unused]] const bool csv_registered = detection_formats().add(
    {.name = "csv",
     .summary = "a CSV file of boxes: file_name,class,x1,y1,x2,y2",
     .recognises = [](const DataPaths& paths) { return paths.annotations.ends_with(".csv"); },
     .read = [](const DataPaths& paths,
                const ProblemReport& report) { return CsvReader(paths, report).read(); },
     .layout = "train.csv or _annotations.csv",
     .find = find_csv,
     .file = __FILE__});

}  // namespace
}  // namespace saccade
