// The one type of data sets: training, evaluation and the commands know only this. A format is a reader of
// the lists that it is made from (data_format.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/types/image_size.h"
#include "data/formats/ground_truth.h"
#include "data/images/sample.h"

namespace saccade {

// What number a category has for the model: its rank by ascending category id, or its id itself.
enum class LabelScheme { kContiguous, kCategoryId };

// The name of a class that stands for no category: with kCategoryId, the gaps between the ids.
inline constexpr const char* kNoCategory = "N/A";

// Images with their ground truth, by index: that of ascending ids.
class Dataset {
 public:
  // name: the annotations or the folder, for messages. Throws InputError "name: annotation 7: what" on a
  // duplicate or unknown id, and on an empty list of images or categories. With kCategoryId also on an id
  // that is negative or 65536 and more. The images are not looked at; images_dir may be empty.
  Dataset(std::string name, std::string images_dir, GroundTruth truth, LabelScheme labels);

  const std::string& name() const { return name_; }
  int64_t num_images() const { return static_cast<int64_t>(truth_.images.size()); }
  const ImageInfo& image(int64_t index) const { return truth_.images.at(static_cast<size_t>(index)); }
  std::string image_path(int64_t index) const;
  // How results refer to the image.
  int64_t image_id(int64_t index) const { return image(index).id; }
  const std::string& file_name(int64_t index) const { return image(index).file_name; }
  // Which file names the image, and where in it; "": none does.
  std::string place_of(int64_t index) const;
  // Labels of its objects (crowds not counted), or its own; and its size,
  // 0 x 0 where that is not known before it is read.
  std::vector<int64_t> labels_of(int64_t index) const;
  ImageSize size_of(int64_t index) const { return {image(index).height, image(index).width}; }
  // The decoded image with what training sees of its ground truth: crowds are left out; boxes are clipped to
  // the image, those without area dropped. Labels are 0 .. num_classes() - 1.
  Sample make_sample(int64_t index, Image image) const;
  // The labels of the pixels of an image of this size; empty where the set has none. Throws InputError naming
  // the file for one that cannot be read, is of another size, or has a value that means nothing.
  LabelMap label_map_of(int64_t index, ImageSize size) const;

  int64_t num_classes() const { return static_cast<int64_t>(category_ids_.size()); }
  const std::vector<int64_t>& category_ids() const { return category_ids_; }    // [num_classes], ascending
  const std::vector<std::string>& class_names() const { return class_names_; }  // [num_classes]
  // Throws Error when the category is unknown.
  int64_t class_of(int64_t category_id) const;

  // Images and categories by ascending id; annotations by image, then in the order of the list. Ids are
  // unique; every annotation names an image and a category of the lists.
  const GroundTruth& ground_truth() const { return truth_; }
  // Crowds included.
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
