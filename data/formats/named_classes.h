// What formats share whose files know classes by their names and numbers as text.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/listing.h"

namespace saccade {

// One name a line, without the blanks around it; blank lines at the end are no names. Throws InputError for
// other empty ones, a name that is there twice, no name at all and more than 65536.
std::vector<std::string> read_class_list(const std::string& path);
void check_class_list(const std::vector<std::string>& names, const std::string& path);

// The categories of these names: those of paths.categories where it has some, else 1, 2, ... in this order.
std::vector<Category> number_classes(const std::vector<std::string>& names, const DataPaths& paths);
// Each of the sets next to this one, whose classes count, too. What leaves no list of one of them, whoever
// reads that set tells, and not this one's reader.
void for_each_beside(const DataPaths& paths, const std::function<void(const DataPaths& other)>& visit);
std::map<std::string, int64_t> ids_by_name(const std::vector<Category>& categories);
// "3 that are known ("a", "b", "c")", for messages about another one.
std::string known_classes(const std::map<std::string, int64_t>& ids);
// The id of the class that the record at the place has; nothing, and it is reported, if it is none of them.
std::optional<int64_t> id_of_class(const std::string& name, const std::map<std::string, int64_t>& ids,
                                   const GroundTruth& truth, Place place, const ProblemReport& report);

// A finite number that takes up the whole text.
std::optional<double> finite_number(std::string_view text);
// To a millionth of a pixel: what was a round number before it was written in another unit is one again.
double round_pixels(double value);

}  // namespace saccade
