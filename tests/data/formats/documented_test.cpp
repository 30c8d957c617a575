// Each row of docs/formats.md has a case in the tests, which documented.table names; this file holds those
// that are nowhere else.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <vector>

#include "tests/data/formats/reader_rows.h"

namespace saccade {
namespace {

using test::check_reading;

const std::string kTests = SACCADE_SOURCE_DIR "/tests/";

struct DocumentedRow {
  std::string reader, text;
};

// Returns the rows of the tables below the readers' headings, without the tables' heads.
std::vector<DocumentedRow> documented_rows() {
  std::istringstream page(read_bytes(SACCADE_SOURCE_DIR "/docs/formats.md"));
  std::vector<DocumentedRow> rows;
  std::string reader;
  bool is_head = true;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) reader = line.substr(3);
    if (!line.starts_with("| ")) {
      is_head = true;  // of the next table
    } else if (line.starts_with("| ---")) {
      is_head = false;
    } else if (!is_head && !reader.empty()) {
      rows.push_back({reader, std::string(trimmed(line.substr(2, line.find(" |", 2) - 2)))});
    }
  }
  return rows;
}

struct NamedCase {
  std::string file, part;
};
struct NamedRow {
  std::string reader, beginning;
  std::vector<NamedCase> cases;
  int rows = 0;
};

// Reads "reader | beginning => file: part | file: part", where a file ends in .cpp or .table.
std::vector<NamedRow> named_rows() {
  std::istringstream table(read_bytes(kTests + "data/formats/documented.table"));
  std::vector<NamedRow> rows;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const size_t bar = line.find(" | "), arrow = line.find(" => ");
    NamedRow row{
        .reader = line.substr(0, bar), .beginning = line.substr(bar + 3, arrow - bar - 3), .cases = {}};
    std::vector<size_t> begins;  // of the cases: bars that a file's name follows
    for (size_t at = arrow; at != std::string::npos; at = line.find(" | ", at + 1)) {
      const size_t begin = at + (at == arrow ? 4 : 3), colon = line.find(": ", begin);
      const std::string_view file = std::string_view(line).substr(begin, colon - begin);
      const bool is_file = colon != std::string::npos && file.find(' ') == std::string_view::npos &&
                           (file.ends_with(".cpp") || file.ends_with(".table"));
      if (at != arrow && !is_file) continue;
      begins.push_back(begin);
    }
    for (size_t i = 0; i < begins.size(); ++i) {
      const size_t end = i + 1 < begins.size() ? begins[i + 1] - 3 : line.size(),
                   colon = line.find(": ", begins[i]);
      row.cases.push_back(
          {line.substr(begins[i], colon - begins[i]), line.substr(colon + 2, end - colon - 2)});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Documentation, EachRowOfAReaderHasACase) {
  std::vector<NamedRow> named = named_rows();
  const std::vector<DocumentedRow> rows = documented_rows();
  ASSERT_GT(rows.size(), 60u);
  for (const DocumentedRow& row : rows) {
    int found = 0;
    for (NamedRow& n : named)
      if (n.reader == row.reader && row.text.starts_with(n.beginning)) {
        ++found;
        ++n.rows;
      }
    EXPECT_EQ(found, 1) << row.reader << " | " << row.text << ": expected one line in documented.table";
  }
  std::map<std::string, std::string> files;
  for (const NamedRow& n : named) {
    EXPECT_EQ(n.rows, 1) << n.reader << " | " << n.beginning << ": expected one row in docs/formats.md";
    EXPECT_FALSE(n.cases.empty());
    for (const NamedCase& c : n.cases) {
      const auto [it, is_new] = files.try_emplace(c.file);
      if (is_new) it->second = read_bytes(kTests + c.file);
      EXPECT_NE(it->second.find(c.part), std::string::npos) << c.file << " has no case with " << c.part;
    }
  }
}

const std::string kCsv = "file_name,class,x1,y1,x2,y2\n1.png,nut,1,1,9,9\n";

TEST(Documentation, CasesThatStandNowhereElse) {
  const std::string shapes =
      R"({"shapes":[{"label":"nut","points":[[1,1],[9,9]],"shape_type":"rectangle"}],"imagePath":"1.png"})";
  check_reading({
      {{{"annotations/instances_default.json",
         R"({"images":[{"id":1,"file_name":"1.png"}],"annotations":[],"categories":[{"id":1,"name":"nut"}]})"},
        {"images/default/1.png", ""}},
       {"coco train: 1.png"}},
      {{{"boxes.csv", kCsv}, {"images/1.png", ""}}, {"csv train: 1.png(1)"}},
      {{{"labels.csv", kCsv}, {"1.png", ""}}, {"csv train: 1.png(1)"}},
      {{{"json/a.json", shapes}, {"json/b.json", shapes}, {"images/1.png", ""}},
       {"error: json/b.json: belongs to the image 1.png, as does json/a.json"}},
  });
}

}  // namespace
}  // namespace saccade
