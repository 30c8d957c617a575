// The only type of data sets that training, evaluation and the commands know. A format is a reader of the
// lists that it is made from (data_format.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"
#include "data/formats/ground_truth.h"
#include "data/images/sample.h"

namespace saccade {

// The number of a category for the model: its rank by ascending category id, or the id itself.
enum class LabelScheme { kContiguous, kCategoryId };

// The name of a class without a category: the gaps between the ids with kCategoryId.
inline constexpr const char* kNoCategory = "N/A";

// Images with their ground truth, indexed by ascending id.
class Dataset {
 public:
  // name: the annotations or the folder, for messages. Throws InputError "name: annotation 7: what" for a
  // duplicate or unknown id and for an empty list of images or categories; with kCategoryId also for an id
  // that is negative or above 65535. The images are not inspected; images_dir may be empty.
  Dataset(std::string name, std::string images_dir, GroundTruth truth, LabelScheme labels);

  const std::string& name() const { return name_; }
  int64_t num_images() const { return static_cast<int64_t>(truth_.images.size()); }
  const ImageInfo& image(int64_t index) const { return truth_.images.at(static_cast<size_t>(index)); }
  std::string image_path(int64_t index) const;
  // The id by which results refer to the image.
  int64_t image_id(int64_t index) const { return image(index).id; }
  const std::string& file_name(int64_t index) const { return image(index).file_name; }
  // Returns the file that names the image and the place in it; "" if there is none.
  std::string place_of(int64_t index) const;
  // The labels of its objects (without crowds), or its own; and its size,
  // 0 x 0 if it is unknown before the image is read.
  std::vector<int64_t> labels_of(int64_t index) const;
  ImageSize size_of(int64_t index) const { return {image(index).height, image(index).width}; }
  // Returns the decoded image with the ground truth for training: crowds are left out; boxes are clipped to
  // the image, and those without area are dropped. Labels are 0 .. num_classes() - 1.
  Sample make_sample(int64_t index, Image image) const;
  // Returns the pixel labels of an image of this size; empty if the set has none. Throws InputError naming
  // the file if it cannot be read, has another size, or contains a value without meaning.
  LabelMap label_map_of(int64_t index, ImageSize size) const;

  int64_t num_classes() const { return static_cast<int64_t>(category_ids_.size()); }
  const std::vector<int64_t>& category_ids() const { return category_ids_; }    // [num_classes], ascending
  const std::vector<std::string>& class_names() const { return class_names_; }  // [num_classes]
  // Throws Error if the category is unknown.
  int64_t class_of(int64_t category_id) const;

  // Images and categories by ascending id; annotations by image, then in the order of the list. Ids are
  // unique; every annotation refers to an image and a category of the lists.
  const GroundTruth& ground_truth() const { return truth_; }
  // Including crowds.
  std::span<const Annotation> annotations_of(int64_t index) const;

 private:
  void number_classes(LabelScheme labels);

  std::string name_, images_dir_;
  GroundTruth truth_;
  std::vector<size_t> begin_;  // annotations of image i: [begin_[i], begin_[i + 1])
  std::vector<int64_t> category_ids_;
  std::vector<std::string> class_names_;
};

}  // namespace saccade
