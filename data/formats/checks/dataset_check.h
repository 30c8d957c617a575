// Finds the faults of a data set, whatever files it was read from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// As check_dataset, for lists that have already been read.
void check_ground_truth(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        GroundTruth* left);

// The same for images that have classes.
void check_class_images(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report);

// The number of pixels of a label map in each category; -1 is for pixels without one.
using ClassPixels = std::map<int64_t, int64_t>;
// The same for images that have label maps: every pixel is read. pixels: if given, receives
// the counts of each image.
void check_label_images(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        std::vector<ClassPixels>* pixels = nullptr);
// As check_dataset, for a set of label maps.
DatasetReport check_label_maps(const DataPaths& paths, GroundTruth& truth, std::vector<ClassPixels>& pixels);

// Returns why a set of these categories does not match those of `who` ("the training set"): a line for each
// category that it lacks or that has another name there.
std::vector<std::string> category_conflicts(const std::vector<Category>& expected,
                                            const std::vector<Category>& categories, const std::string& who);

// Lists things that are allowed but rarely intended: no annotation, classes without any, without a name or
// with the same name. One line each.
std::vector<std::string> remarks_on_classes(const GroundTruth& truth);
// The subset that follows from names alone: they are empty, repeated, or hardly differ.
std::vector<std::string> remarks_on_names(const std::vector<Category>& categories);

}  // namespace saccade
