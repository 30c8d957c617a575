// Small data sets, given by the names and texts of their files, and the readers' results for them.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/joining/united_paths.h"
#include "data/formats/named_classes.h"
#include "data/formats/splits.h"
#include "tests/data/test_files.h"

namespace saccade::test {

// Files without text are images of 40 x 20 pixels; names that end in a slash are folders.
using Files = std::vector<std::pair<std::string, std::string>>;

inline void make(const TestFolder& dir, const Files& files) {
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories(name.ends_with("/")
                                            ? std::filesystem::path(dir / name)
                                            : std::filesystem::path(dir / name).parent_path());
    if (name.ends_with("/")) continue;
    if (has_image_extension(name) && text.empty())
      write_png(Image(20, 40), dir / name);
    else
      write_bytes(dir / name, text);
  }
}

inline std::string without(std::string text, const std::string& part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

// Returns "yolo train: a.png(1) b.png | val: c.png" with the number of boxes, the notes, or the error.
inline std::string read_all(const TestFolder& dir, const std::string& place = "") {
  std::string text, notes;
  try {
    DataSplits splits = find_united({place.empty() ? dir.path() : dir / place}, {});
    text = splits.format;
    for (const std::string& note : splits.notes) notes += "\n" + note;
    std::vector<Category> categories;
    for (const SplitNames& names : split_names()) {
      auto& paths = splits.*names.split;
      if (!paths) continue;
      paths->categories = categories;
      std::vector<std::string> said;
      const auto set = open_dataset(*paths, LabelScheme::kContiguous, &said);
      if (categories.empty()) categories = set->ground_truth().categories;
      text += fmt::format("{} {}:",
                          categories.empty()      ? ""
                          : text == splits.format ? ""
                                                  : " |",
                          names.names[0]);
      for (int64_t i = 0; i < set->num_images(); ++i) {
        const size_t boxes = set->labels_of(i).size();
        text += " " + set->file_name(i) + (boxes > 0 ? fmt::format("({})", boxes) : "");
      }
      for (const std::string& note : said) notes += "\n" + note;
    }
  } catch (const InputError& e) {
    return "error: " + without(e.what(), dir.path() + "/");
  }
  return without(text + notes, dir.path() + "/");
}

struct ReaderRow {
  Files files;
  std::vector<std::string> expected;  // the whole result, or parts of it
  std::string place = "";             // within the folder, as given to --data
};

inline void check_reading(const std::vector<ReaderRow>& rows) {
  for (const ReaderRow& row : rows) {
    TestFolder dir;
    make(dir, row.files);
    const std::string got = read_all(dir, row.place);
    for (const std::string& part : row.expected)
      EXPECT_NE(got.find(part), std::string::npos) << "expected " << part << "\ngot " << got;
    if (row.expected.size() == 1) {
      EXPECT_EQ(got, row.expected[0]);
    }
  }
}

inline Files both(Files files, const Files& more) {
  files.insert(files.end(), more.begin(), more.end());
  return files;
}

}  // namespace saccade::test
