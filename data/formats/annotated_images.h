// A detection data set from lists of images, boxes and categories: what most formats come down to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/formats/detection_dataset.h"

namespace saccade {

class AnnotatedImages : public DetectionDataset {
 public:
  // name: the annotations, for messages. Throws InputError "name: annotation 7: what" on a duplicate or unknown id, and on an
  // empty list of images or categories. With kCategoryId also on an id that is negative or 65536 and more. The images are not
  // looked at; images_dir may be empty.
  AnnotatedImages(std::string name, std::string images_dir, GroundTruth truth, LabelScheme labels);

  const std::string& name() const override { return name_; }
  int64_t num_images() const override { return static_cast<int64_t>(truth_.images.size()); }
  std::string image_path(int64_t index) const override;
  int64_t image_id(int64_t index) const override { return image(index).id; }
  const std::string& file_name(int64_t index) const override { return image(index).file_name; }
  std::string place_of(int64_t index) const override;
  std::vector<int64_t> labels_of(int64_t index) const override;
  ImageSize size_of(int64_t index) const override { return {image(index).height, image(index).width}; }
  std::vector<std::string> followed_links() const override { return truth_.links; }
  // Crowds are left out; boxes are clipped to the image, those without area dropped.
  Sample make_sample(int64_t index, Image image) const override;
  const std::vector<int64_t>& category_ids() const override { return category_ids_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  // Images and categories by ascending id; annotations by image, then in the order of the list.
  const GroundTruth& ground_truth() const override { return truth_; }

  const ImageInfo& image(int64_t index) const { return truth_.images.at(static_cast<size_t>(index)); }
  // Crowds included.
  std::span<const Annotation> annotations_of(int64_t index) const;
  // Throws Error when the category is unknown.
  int64_t class_of(int64_t category_id) const;

 private:
  void number_classes(LabelScheme labels);

  std::string name_, images_dir_;
  GroundTruth truth_;
  std::vector<size_t> begin_;  // annotations of image i: [begin_[i], begin_[i + 1])
  std::vector<int64_t> category_ids_;
  std::vector<std::string> class_names_;
};

}  // namespace saccade
