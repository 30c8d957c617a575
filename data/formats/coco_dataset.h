// A COCO-format detection set, checked and indexed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/formats/coco_json.h"
#include "data/formats/image_source.h"

namespace saccade {

// What number a category has for the model: its rank by ascending category id, or its id itself.
enum class LabelScheme { kContiguous, kCategoryId };

// The name of a class that stands for no category: with kCategoryId, the gaps between the ids.
inline constexpr const char* kNoCategory = "N/A";

// Invariants after load(): image, annotation and category ids are unique; every annotation names a known
// image and category; classes are 0 .. num_classes()-1.
class CocoDataset final : public ImageSource {
 public:
  // Throws InputError "file: annotation 7: what" on a missing or broken file, a missing or mistyped field, a
  // duplicate or unknown id, an empty list of images or categories, or an image that is not in images_dir
  // (not looked for when images_dir is empty, as when only figures are wanted).
  // With kCategoryId also on an id that is negative or 65536 and more.
  static CocoDataset load(const std::string& annotations_path, const std::string& images_dir,
                          LabelScheme labels = LabelScheme::kContiguous);

  const std::string& annotations_path() const { return annotations_path_; }
  const std::string& name() const override { return annotations_path_; }
  int64_t num_images() const override { return static_cast<int64_t>(images_.size()); }
  int64_t num_classes() const { return static_cast<int64_t>(category_ids_.size()); }
  const std::vector<CocoImage>& images() const { return images_; }  // ascending id
  const CocoImage& image(int64_t index) const { return images_.at(static_cast<size_t>(index)); }
  std::string image_path(int64_t index) const override;
  int64_t image_id(int64_t index) const override { return image(index).id; }
  const std::string& file_name(int64_t index) const override { return image(index).file_name; }
  // Crowds are left out; boxes are clipped to the image, those without area dropped.
  Sample make_sample(int64_t index, Image image) const override;
  // In file order within the image, crowds included.
  std::span<const CocoAnnotation> annotations_of(int64_t index) const;
  const std::vector<CocoAnnotation>& annotations() const {
    return annotations_;
  }  // by image, then file order

  const std::vector<CocoCategory>& categories() const { return categories_; }  // of the file, by ascending id
  const std::vector<int64_t>& category_ids() const { return category_ids_; }   // [num_classes], ascending
  const std::vector<std::string>& class_names() const { return class_names_; }  // [num_classes]
  // Throws Error when the category is unknown.
  int64_t class_of(int64_t category_id) const;
  // Annotations (crowds not counted) whose box has no area inside the image; training leaves them out.
  int64_t empty_boxes() const { return empty_boxes_; }

 private:
  std::string annotations_path_, images_dir_;
  std::vector<CocoImage> images_;
  std::vector<CocoAnnotation> annotations_;
  std::vector<size_t> begin_;  // annotations of image i: [begin_[i], begin_[i + 1])
  std::vector<CocoCategory> categories_;
  std::vector<int64_t> category_ids_;
  std::vector<std::string> class_names_;
  int64_t empty_boxes_ = 0;
};

}  // namespace saccade
