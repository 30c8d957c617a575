// What formats share whose files know classes by their names and numbers as text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// One name a line; blank lines at the end are no names. Throws InputError for other empty ones, a name that is there twice, no name at
// all and more than 65536.
std::vector<std::string> read_class_list(const std::string& path);
void check_class_list(const std::vector<std::string>& names, const std::string& path);

// The categories of these names: those of paths.categories where it has some, else 1, 2, ... in this order.
std::vector<Category> number_classes(const std::vector<std::string>& names, const DataPaths& paths);
std::map<std::string, int64_t> ids_by_name(const std::vector<Category>& categories);

// A finite number that takes up the whole text.
std::optional<double> finite_number(std::string_view text);
// To a millionth of a pixel: what was a round number before it was written in another unit is one again.
double round_pixels(double value);

// Names of the images in a folder and its folders, relative to it, sorted; hidden ones are left out. Throws InputError when it cannot be read.
std::vector<std::string> list_images(const std::string& folder);
// Names of the folder's own files that end so, sorted; none where there is no such folder.
std::vector<std::string> list_files(const std::string& folder, const std::string& ending);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);
// folder + "/" + name; the name alone where it is absolute.
std::string joined(const std::string& folder, const std::string& name);

// The first of these that is a folder; "": none.
std::string first_folder(const std::vector<std::string>& folders);

}  // namespace saccade
