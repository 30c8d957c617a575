// An image-folder data set: one sub-folder per class, as torchvision's ImageFolder reads it.
#pragma once

#include <string>
#include <vector>

#include "data/formats/classification_dataset.h"

namespace saccade {

// Invariants after load(): classes are the sub-folders in the order of their names (byte by byte), each with
// at least one image; images are ordered by class, then folder, then name.
class ImageFolder final : public ClassificationDataset {
 public:
  // Looks for images in the class folders and below them; hidden files and folders are passed over, and of links that lead to a
  // folder twice only the first counts. A link out of the folder is refused unless allow_outside. With
  // `classes`, the sub-folders must be exactly these, or as many WordNet numbers ("n01440764") that stand for them in their
  // order; labels are places in that list. Throws InputError
  // when the folder is missing, has no class folders, a class has no image, an image is of a type that is not
  // read (TIFF, GIF), or the classes differ.
  static ImageFolder load(const std::string& folder, const std::vector<std::string>& classes = {},
                          bool allow_outside = false);

  const std::string& name() const override { return folder_; }
  int64_t num_images() const override { return static_cast<int64_t>(files_.size()); }
  std::string image_path(int64_t index) const override;
  int64_t image_id(int64_t index) const override { return index; }
  const std::string& file_name(int64_t index) const override;  // below the folder: "cat/1.jpg"
  Sample make_sample(int64_t index, Image image) const override;

  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const { return labels_.at(static_cast<size_t>(index)); }
  std::vector<int64_t> labels_of(int64_t index) const override { return {label(index)}; }
  // Leaves only so many images: the first of each class, then the second of each, and so on.
  void keep(int64_t most);
  // Files that are no images, and files outside of the class folders, by name below the folder.
  const std::vector<std::string>& ignored() const { return ignored_; }
  // "DIR: 800 images of 10 classes", and how many files are left out.
  std::vector<std::string> notes() const override;

 private:
  std::string folder_;
  std::vector<std::string> class_names_;
  std::vector<std::string> files_;
  std::vector<int64_t> labels_;  // of files_
  std::vector<std::string> ignored_;
};

}  // namespace saccade
