// Helpers for formats whose files identify classes by name and have numbers as text.
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

// Reads one name per line, without surrounding blanks; blank lines at the end are ignored. Throws InputError
// for other blank lines, a repeated name, no name at all and more than 65536 names.
std::vector<std::string> read_class_list(const std::string& path);
void check_class_list(const std::vector<std::string>& names, const std::string& path);

// The categories of these names: those of paths.categories if it has some, else 1, 2, ... in this order.
std::vector<Category> number_classes(const std::vector<std::string>& names, const DataPaths& paths);
// Visits each of the sets next to this one, whose classes count too. An error that leaves no list of one of
// them is reported by the reader of that set, not by this one.
void for_each_beside(const DataPaths& paths, const std::function<void(const DataPaths& other)>& visit);
std::map<std::string, int64_t> ids_by_name(const std::vector<Category>& categories);
// Returns "expected "a"" or "expected one of 3: "a", "b", "c"", for messages about another one.
std::string known_classes(const std::map<std::string, int64_t>& ids);
// Returns the class id of the record at the place; if the class is unknown, reports it and returns nothing.
std::optional<int64_t> id_of_class(const std::string& name, const std::map<std::string, int64_t>& ids,
                                   const GroundTruth& truth, Place place, const ProblemReport& report);

// Parses a finite number that takes up the whole text.
std::optional<double> finite_number(std::string_view text);
// Rounds to a millionth of a pixel: restores round numbers after a conversion of units.
double round_pixels(double value);

}  // namespace saccade
