// The faults of a data set, whatever files it was read from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

// As check_dataset, of lists that are read already.
void check_ground_truth(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        GroundTruth* left);

// The same of images that have classes.
void check_class_images(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report);

// How many pixels of a label map each category has; -1: those of none.
using ClassPixels = std::map<int64_t, int64_t>;
// And of images that have label maps: every pixel of these is read. pixels: gets those of each image,
// where it is wanted.
void check_label_images(const GroundTruth& truth, const DataPaths& paths, int threads, DatasetReport& report,
                        std::vector<ClassPixels>* pixels = nullptr);
// As check_dataset, of a set of label maps.
DatasetReport check_label_maps(const DataPaths& paths, GroundTruth& truth, std::vector<ClassPixels>& pixels);

// Why a set of these categories is not one of those of `who` ("the training set"): a line for each that is
// missing in it, or has another name there.
std::vector<std::string> category_conflicts(const std::vector<Category>& expected,
                                            const std::vector<Category>& categories, const std::string& who);

// What is allowed, but rarely meant: no annotation, classes without one, without a name or of one name.
// A line each.
std::vector<std::string> remarks_on_classes(const GroundTruth& truth);
// Of that what the names alone say: they are empty, there twice, or hardly differ.
std::vector<std::string> remarks_on_names(const std::vector<Category>& categories);

}  // namespace saccade
