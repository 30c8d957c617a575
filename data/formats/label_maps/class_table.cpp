#include "data/formats/label_maps/class_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "core/files/file.h"
#include "core/files/text.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/listing.h"
#include "data/formats/named_classes.h"

namespace saccade {
namespace {

// The classes of data sets whose files do not name them, with their values in the label maps.
using KnownClasses = std::vector<std::pair<uint32_t, std::string>>;

KnownClasses numbered(const std::vector<const char*>& names) {
  KnownClasses classes;
  for (const char* name : names) classes.emplace_back(static_cast<uint32_t>(classes.size()), name);
  return classes;
}

const KnownClasses& voc_classes() {
  static const KnownClasses kClasses =
      numbered({"background", "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",
                "car",        "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",
                "motorbike",  "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"});
  return kClasses;
}

const KnownClasses& cityscapes_classes() {
  static const KnownClasses kClasses{
      {7, "road"},  {8, "sidewalk"},       {11, "building"},     {12, "wall"},       {13, "fence"},
      {17, "pole"}, {19, "traffic light"}, {20, "traffic sign"}, {21, "vegetation"}, {22, "terrain"},
      {23, "sky"},  {24, "person"},        {25, "rider"},        {26, "car"},        {27, "truck"},
      {28, "bus"},  {31, "train"},         {32, "motorcycle"},   {33, "bicycle"}};
  return kClasses;
}

const KnownClasses& cityscapes_train_classes() {
  static const KnownClasses kClasses = [] {
    std::vector<const char*> names;
    for (const auto& [id, name] : cityscapes_classes()) names.push_back(name.c_str());
    return numbered(names);
  }();
  return kClasses;
}

constexpr const char* kValueTable = "_classes.csv";
constexpr uint32_t kVocBorder = 0xe0e0c0;  // the colour of 255 in VOC's palette

// A class and the value of its pixels.
struct ListedClass {
  uint32_t value;
  std::string name;
};
struct ClassList {
  std::vector<ListedClass> classes;
  bool are_colors = false;
};

void check_listed(const ClassList& list, const std::string& path) {
  std::vector<std::string> names;
  std::set<uint32_t> values;
  for (const ListedClass& c : list.classes) {
    names.push_back(c.name);
    if (!values.insert(c.value).second)
      fail_input("{}: two classes have the {} {}, the second is \"{}\"", path,
                 list.are_colors ? "colour" : "value", value_text(c.value, list.are_colors),
                 printable(c.name));
  }
  check_class_list(names, path);
}

uint32_t number_in(std::string_view text, uint32_t most, const std::string& path, int64_t line) {
  text = trimmed(text);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value > most)
    fail_input("{}: line {}: \"{}\", expected a whole number from 0 to {}", path, line,
               printable(std::string(text)), most);
  return value;
}

// Reads "name:r,g,b:parts:actions", as written by CVAT; "#" starts a comment.
ClassList read_color_list(const std::string& path) {
  ClassList list{.are_colors = true};
  for (const TextLine& line : text_lines(read_text(path, kTextFile))) {
    if (line.text.starts_with("#")) continue;
    const size_t name_end = line.text.find(':');
    if (name_end == std::string::npos)
      fail_input("{}: line {}: expected name:red,green,blue:parts:actions", path, line.number);
    std::string_view rest = std::string_view(line.text).substr(name_end + 1);
    rest = rest.substr(0, rest.find(':'));
    uint32_t color = 0;
    for (int c = 0; c < 3; ++c) {
      const size_t end = c < 2 ? rest.find(',') : rest.size();
      if (end == std::string_view::npos)
        fail_input("{}: line {}: expected name:red,green,blue:parts:actions", path, line.number);
      color = color << 8 | number_in(rest.substr(0, end), 255, path, line.number);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    list.classes.push_back({color, std::string(trimmed(line.text.substr(0, name_end)))});
  }
  return list;
}

// Reads "Idx Ratio Train Val Stuff Name" separated by tabs, as in ADE20K.
ClassList read_object_info(const std::string& path) {
  ClassList list;
  for (const TextLine& line : text_lines(read_text(path, kTextFile))) {
    if (line.text.starts_with("Idx")) continue;
    const size_t first = line.text.find('\t'), last = line.text.rfind('\t');
    if (first == std::string::npos)
      fail_input("{}: line {}: expected a number, counts and a name, separated by tabs", path, line.number);
    list.classes.push_back({number_in(line.text.substr(0, first), 65535, path, line.number),
                            std::string(trimmed(line.text.substr(last + 1)))});
  }
  return list;
}

// Reads "Pixel Value, Class" in the first line, then "0, background", as in Roboflow's export.
ClassList read_value_table(const std::string& path) {
  ClassList list;
  const std::vector<TextLine> lines = text_lines(read_text(path, kTextFile));
  if (lines.empty() || !lower_case(lines[0].text).starts_with("pixel value"))
    fail_input(
        "{}: line 1: expected \"Pixel Value, Class\", the header of a list of the classes in label maps",
        path);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string& text = lines[i].text;
    const size_t comma = text.find(',');
    if (comma == std::string::npos)
      fail_input("{}: line {}: expected a value and a class, separated by a comma", path, lines[i].number);
    list.classes.push_back({number_in(text.substr(0, comma), 65535, path, lines[i].number),
                            std::string(trimmed(text.substr(comma + 1)))});
  }
  return list;
}

ClassList read_list(const std::string& path, uint32_t first) {
  const std::string name = std::filesystem::path(path).filename().string();
  ClassList list;
  if (name == "labelmap.txt") {
    list = read_color_list(path);
  } else if (name.starts_with("objectInfo")) {
    list = read_object_info(path);
  } else if (name == kValueTable) {
    list = read_value_table(path);
  } else {
    for (std::string& each : read_class_list(path))
      list.classes.push_back({first + static_cast<uint32_t>(list.classes.size()), std::move(each)});
  }
  check_listed(list, path);
  return list;
}

// Makes each occurring value a class.
ClassList values_of(const std::vector<std::string>& files, const std::vector<uint32_t>& ignored) {
  std::set<uint32_t> values;
  std::mutex mutex;
  run_tasks(std::ssize(files), static_cast<int>(std::thread::hardware_concurrency()), [&](int64_t i) {
    CountedValues read;
    try {
      read = read_label_values(files[static_cast<size_t>(i)], false);
    } catch (const InputError&) {  // the code that reads it reports it
      return;
    }
    const std::lock_guard lock(mutex);
    for (const auto& [value, count] : read.counts) values.insert(value);
  });
  ClassList list;
  for (uint32_t v : values)
    if (std::ranges::find(ignored, v) == ignored.end()) list.classes.push_back({v, std::to_string(v)});
  return list;
}

// Masks of one object often only have 0 and 255, and 255 is no class by default: only one class would remain,
// which any model finds. A few files suffice to rule out most other sets.
void refuse_masks_of_255(const std::vector<std::string>& files) {
  constexpr size_t kLookedAt = 8;
  const auto are_two = [](const std::vector<std::string>& some) {
    const ClassList list = values_of(some, {});
    return list.classes.size() == 2 && list.classes[0].value == 0 && list.classes[1].value == 255;
  };
  std::vector<std::string> some;
  for (size_t i = 0; i < files.size(); i += files.size() / kLookedAt + 1) some.push_back(files[i]);
  if (!are_two(some) || !are_two(files)) return;
  fail_input(
      "{}: this and the other label maps have only the values 0 and 255, and 255 is no class by default; expected a labelmap.txt next to them that names both (background:0,0,0:: and object:255,255,255::), or data.label_maps.ignore=255 if only 0 is a class",
      files.front());
}

std::string list_in(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders)
    for (const char* name : {"labelmap.txt", "objectInfo150.txt", "classes.txt", kValueTable})
      if (std::string path = joined(folder, name); is_file(path)) return path;
  return "";
}

}  // namespace

ClassTable class_table(const LabelMapOptions& options, const std::vector<std::string>& folders,
                       LabelLayout layout, const std::vector<std::string>& files,
                       const std::vector<Category>& known) {
  std::vector<uint32_t> ignored{255, 65535};
  if (!options.ignore.empty()) ignored.assign(options.ignore.begin(), options.ignore.end());
  const uint32_t first = options.reduce_zero_label ? 1 : 0;
  ClassTable table;
  ClassList list;
  std::string path = options.list;
  if (path.empty() && options.names.empty()) path = list_in(folders);
  if (!options.names.empty()) {
    if (!options.list.empty())
      fail_input("data.label_maps.list: \"{}\" cannot be combined with data.label_maps.names", options.list);
    for (const std::string& name : options.names)
      list.classes.push_back({first + static_cast<uint32_t>(list.classes.size()), name});
    check_listed(list, "data.label_maps.names");
  } else if (!path.empty()) {
    list = read_list(path, first);
    table.notes.push_back(fmt::format("the classes are those of {}", path));
  } else if (layout != LabelLayout::kPlain) {
    const auto& classes = layout == LabelLayout::kVoc             ? voc_classes()
                          : layout == LabelLayout::kCityscapesIds ? cityscapes_classes()
                                                                  : cityscapes_train_classes();
    for (const auto& [value, name] : classes) list.classes.push_back({value, name});
    table.notes.push_back(fmt::format("the classes are those of {}, as no list names others",
                                      layout == LabelLayout::kVoc ? "Pascal VOC" : "Cityscapes"));
  } else if (!known.empty()) {
    for (const Category& c : known) list.classes.push_back({static_cast<uint32_t>(c.id), c.name});
  } else {
    if (options.reduce_zero_label) ignored.push_back(0);
    list = values_of(files, ignored);
    table.notes.push_back(
        "no list names the classes, so each value in the label maps is a class named by its number; a classes.txt or "
        "data.label_maps.names gives them names");
  }
  if (!list.are_colors && list.classes.size() <= 2 && options.ignore.empty() && !options.reduce_zero_label &&
      !files.empty())
    refuse_masks_of_255(files);
  std::vector<uint32_t> never(options.ignore.begin(), options.ignore.end());  // whatever a list says
  if (options.reduce_zero_label) never.push_back(0);
  if (list.are_colors) {
    ignored = {kVocBorder};
    never.clear();
  } else {
    ignored.insert(ignored.end(), never.begin(), never.end());
    if (path.find("objectInfo") != std::string::npos) ignored.push_back(0);
    if (layout == LabelLayout::kCityscapesIds)  // values that Cityscapes does not evaluate
      for (uint32_t v = 0; v <= 33; ++v) ignored.push_back(v);
  }
  LabelValues values{.categories = {}, .ignored = ignored, .are_colors = list.are_colors};
  for (const ListedClass& c : list.classes) {
    if (std::ranges::find(never, c.value) != never.end()) continue;
    const auto id = list.are_colors ? std::ssize(table.categories) : static_cast<int64_t>(c.value);
    values.categories.emplace(c.value, id);
    table.categories.push_back({id, c.name});
  }
  table.values = std::make_shared<const LabelValues>(std::move(values));
  return table;
}

}  // namespace saccade
