// Boxes in a table: a header, then a line for each box with its image, its class and its corners in pixels.
// Columns are found by their usual names, in any order; others are ignored. Tables without a header use
// RetinaNet's order. An image without objects has a line without a class and corners. Classes are numbered
// from 1 in the order of a classes.txt or classes.csv next to the table, or else by name, images in the order
// of the file.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"
#include "data/formats/per_image.h"
#include "data/formats/splits.h"
#include "data/images/image.h"

namespace saccade {
namespace {

// A table as text (RFC 4180), with common deviations: blanks after commas, semicolons, tabs. Cuts it into
// lines of fields; a field in quotes may contain separators, quotes (doubled) and line ends. Blanks around a
// field that is not in quotes are removed.
class CsvText {
 public:
  // The separator is that of the first line: a comma, or a semicolon or tab if it has no comma.
  explicit CsvText(std::string_view text) : text_(without_mark(text)) {
    const std::string_view first = text_.substr(0, text_.find('\n'));
    if (first.find(',') != first.npos) return;
    for (const char other : {';', '\t'})
      if (first.find(other) != first.npos) {
        separator_ = other;
        return;
      }
  }

  // Returns false at the end. Empty lines are skipped; a quote that does not end is a problem.
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
    bool is_quoted = false;
    auto end_field = [&] {
      if (!is_quoted) fields.back() = std::string(trimmed(fields.back()));
      is_quoted = false;
    };
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++at_;
        break;
      }
      if (c == separator_) {
        end_field();
        fields.emplace_back();
      } else if (c == '"' && !is_quoted && trimmed(fields.back()).empty()) {
        fields.back().clear();
        is_quoted = true;
        read_quoted(fields.back(), problem);
      } else if (!(is_quoted && (c == ' ' || c == '\t')) && c != '\r') {
        fields.back() += c;
      }
    }
    end_field();
  }

  // Reads from the first quote to the last.
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
  char separator_ = ',';
  size_t at_ = 0;
  int64_t line_ = 0, lines_ = 0;
};

enum Column { kImage, kClass, kX1, kY1, kX2, kY2, kWidth, kHeight, kColumns };

// The first name of each is the one in messages.
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

using Columns = std::array<std::optional<size_t>, kColumns>;

bool is_number(const std::string& text) { return finite_number(text).has_value(); }

// RetinaNet's tables have no header: path,x1,y1,x2,y2,class, followed in SKU-110K's by the size of the image.
// An image without objects has only its path.
std::optional<Columns> columns_without_header(const std::vector<std::string>& line) {
  if ((line.size() != 6 && line.size() != 8) || !has_image_extension(line[0])) return std::nullopt;
  auto all = [&](auto test) { return std::all_of(line.begin() + 1, line.begin() + 5, test); };
  if (!all(is_number) && !(all([](const std::string& s) { return s.empty(); }) && line[5].empty()))
    return std::nullopt;
  Columns columns{0, 5, 1, 2, 3, 4};
  if (line.size() == 8) {
    columns[kWidth] = 6;
    columns[kHeight] = 7;
  }
  return columns;
}

Columns find_columns(const std::vector<std::string>& header, const std::string& path) {
  Columns columns;
  for (size_t i = 0; i < header.size(); ++i) {
    const std::string name = lower_case(header[i]);
    for (size_t k = 0; k < kColumns; ++k) {
      if (std::find(kColumnNames[k].begin(), kColumnNames[k].end(), name) == kColumnNames[k].end()) continue;
      if (columns[k])
        fail_input("{}: line 1: \"{}\" and \"{}\" name the same column", path, header[*columns[k]],
                   header[i]);
      columns[k] = i;
    }
  }
  for (size_t k = 0; k < kWidth; ++k)
    if (!columns[k])
      fail_input("{}: line 1: no column \"{}\", expected a header like \"file_name,class,x1,y1,x2,y2\"", path,
                 kColumnNames[k][0]);
  return columns;
}

// Returns the class names of a table, from a classes.txt next to it or RetinaNet's classes.csv (a name and a
// number from 0 in each line), in the order of their numbers; empty if there is neither.
std::vector<std::string> listed_classes(const std::string& annotations) {
  const std::string list = joined(parent_of(annotations), "classes.txt"),
                    table = joined(parent_of(annotations), "classes.csv");
  if (is_file(list)) return read_class_list(list);
  if (!is_file(table)) return {};
  std::map<int64_t, std::string> names;
  const std::string text = read_text(table, kTextFile);
  CsvText csv(text);
  std::vector<std::string> fields;
  std::string problem;
  while (csv.next(fields, problem)) {
    const double number = fields.size() == 2 ? finite_number(fields[1]).value_or(-1) : -1;
    if (!problem.empty() || number < 0 || number > 65535 || number != std::floor(number) ||
        !names.try_emplace(static_cast<int64_t>(number), fields[0]).second)
      fail_input("{}: line {}: expected a class name and a unique number from 0 to 65535", table, csv.line());
  }
  std::vector<std::string> sorted;
  for (const auto& [number, name] : names) sorted.push_back(name);
  check_class_list(sorted, table);
  return sorted;
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
    const std::optional<Columns> plain = columns_without_header(fields);
    columns_ = plain ? *plain : find_columns(fields, paths_.annotations);
    const size_t count = fields.size();
    file_ = truth_.add_file(paths_.annotations);
    truth_.box_form = BoxForm::kCorners;
    bool is_line = plain || csv.next(fields, problem);
    for (; is_line; is_line = csv.next(fields, problem)) {
      if (problem.empty() && fields.size() != count)
        problem = fmt::format("expected {} fields, found {}", count, fields.size());
      if (!problem.empty() && fields.size() > *columns_[kImage])
        truth_.faulty_image_names.push_back(found_name(fields[*columns_[kImage]]));
      if (problem.empty()) problem = add_line(fields, csv.line());
      if (!problem.empty()) report_(fmt::format("{}: line {}: {}", paths_.annotations, csv.line(), problem));
    }
    if (plain)
      truth_.notes.push_back("there is no header, so the columns are read as path,x1,y1,x2,y2,class");
    number();
    return std::move(truth_);
  }

  // Returns the classes of the boxes, without numbers.
  std::set<std::string> names() {
    read();
    std::set<std::string> names;
    for (const auto& [name, place] : classes_) names.insert(name);
    return names;
  }

 private:
  // Returns an error text about the line; "" if it has no error.
  std::string add_line(const std::vector<std::string>& fields, int64_t line) {
    auto field = [&](size_t column) -> const std::string& { return fields[*columns_[column]]; };
    if (field(kImage).empty()) return "expected the name of an image";
    const auto [it, is_new] = images_.try_emplace(field(kImage), truth_.images.size());
    if (is_new) {
      add_image(truth_, found_name(field(kImage)), 0, 0, {file_.file, line});
    }
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
                                  .area = width * height,
                                  .place = {file_.file, line}});
    return "";
  }

  std::string found_name(const std::string& image) const {
    return paths_.images.empty() ? image : name_in(paths_.images, image);
  }

  void number() {
    std::vector<std::string> names(classes_.size());
    for (const auto& [name, place] : classes_) names[place] = name;
    truth_.categories =
        number_classes(paths_.categories.empty() ? all_classes() : std::vector<std::string>(), paths_);
    const std::map<std::string, int64_t> ids = ids_by_name(truth_.categories);
    std::set<std::string> unknown;
    std::erase_if(truth_.annotations, [&](Annotation& a) {
      const std::string& name = names[static_cast<size_t>(a.category_id)];
      const auto id = ids.find(name);
      if (id == ids.end()) {
        if (unknown.insert(name).second)
          report_(fmt::format("{}: the class \"{}\" is unknown, {}", truth_.text_of(a.place), name,
                              known_classes(ids)));
        return true;
      }
      a.category_id = id->second;
      return false;
    });
  }

  // Returns the classes of a list, or those of this table and the ones next to it.
  std::vector<std::string> all_classes() {
    if (std::vector<std::string> listed = listed_classes(paths_.annotations); !listed.empty()) return listed;
    std::set<std::string> names;
    for (const auto& [name, place] : classes_) names.insert(name);
    for_each_beside(paths_, [&](const DataPaths& other) {
      if (!other.annotations.ends_with(".csv")) return;  // it has another format
      DataPaths paths{.annotations = other.annotations,
                      .images = "",
                      .categories = {{0, ""}}};  // the numbers are not needed
      names.merge(CsvReader(paths, [](const std::string&) {}).names());
    });
    return {names.begin(), names.end()};
  }

  DataPaths paths_;
  ProblemReport report_;
  Columns columns_;
  Place file_;
  std::unordered_map<std::string, size_t> images_, classes_;
  GroundTruth truth_;
};

// Returns the first image that the table names, to find the folder that names are relative to; "" if unknown.
std::string first_image(const std::string& file) {
  try {
    const std::string head = head_of(file, kTextFile, 1 << 16);
    CsvText csv(head);
    std::vector<std::string> fields;
    std::string problem;
    if (!csv.next(fields, problem)) return "";
    if (columns_without_header(fields)) return fields[0];
    const size_t column = *find_columns(fields, file)[kImage];
    return csv.next(fields, problem) && column < fields.size() ? fields[column] : "";
  } catch (const InputError&) {  // the code that reads the table reports it
    return "";
  }
}

std::optional<DataPaths> table(const std::string& file, const std::vector<std::string>& folders) {
  return DataPaths{.annotations = file, .images = folder_of(folders, first_image(file))};
}

// Layouts: Roboflow: a table in each split's folder; a table for each split; a single table.
DataSplits find_csv(const std::string& folder) {
  DataSplits splits;
  auto add = [&](std::optional<DataPaths>& split, const std::string& file,
                 const std::vector<std::string>& images) {
    if (!is_file(joined(folder, file))) return;
    if (split)
      splits.notes.push_back(
          fmt::format("{} is ignored because {} exists", joined(folder, file), split->annotations));
    else
      split = table(joined(folder, file), images);
  };
  const std::vector<std::string> common{joined(folder, "images"), folder};
  for_each_split_name(splits, [&](std::optional<DataPaths>& split, const std::string& name) {
    const std::string own = joined(folder, name);
    add(split, name + "/_annotations.csv", {own});
    std::vector<std::string> images{joined(folder, "images/" + name), own};
    images.insert(images.end(), common.begin(), common.end());
    add(split, name + ".csv", images);
    add(split, name + "_labels.csv", images);
  });
  if (!splits.is_empty()) return splits;
  for (const char* name : {"annotations.csv", "labels.csv", "boxes.csv", "_annotations.csv"})
    add(splits.train, name, common);
  return splits;
}

DataSplits find_csv_file(const std::string& file) {
  DataSplits splits;
  const std::string folder = parent_of(file);
  if (file.ends_with(".csv")) splits.train = table(file, {joined(folder, "images"), folder});
  return splits;
}

[[maybe_unused]] const bool csv_registered = data_formats().add(
    {.name = "csv",
     .summary = "a CSV file of boxes: file_name,class,x1,y1,x2,y2; or RetinaNet's without a header",
     .recognises = [](const DataPaths& paths) { return paths.annotations.ends_with(".csv"); },
     .read = [](const DataPaths& paths,
                const ProblemReport& report) { return CsvReader(paths, report).read(); },
     .layout = "train.csv or _annotations.csv",
     .find = find_csv,
     .find_in_file = find_csv_file,
     .label_endings = {".csv", ".tsv"},
     .holds_labels = [](const std::string& file) { return !first_image(file).empty(); }});

}  // namespace
}  // namespace saccade
