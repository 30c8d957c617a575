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
  // Looks for images in the class folders and below them; hidden files and folders are passed over. Links to folders are followed, but
  // for those to a folder that this one lies in; of those that lead to a folder twice only the first counts. With `classes`, the
  // sub-folders must be exactly these, or as many WordNet numbers ("n01440764") that stand for them in their order; labels are places
  // in that list. Throws InputError when the folder is missing, has no class folders, a class has no image, an image is of a type that
  // is not read (HEIC, AVIF), or the classes differ.
  static ImageFolder load(const std::string& folder, const std::vector<std::string>& classes = {});

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
  std::vector<std::string> followed_links() const override { return links_; }
  // "DIR: 800 images of 10 classes", and how many files are left out, and links.
  std::vector<std::string> notes() const override;

 private:
  std::string folder_;
  std::vector<std::string> class_names_;
  std::vector<std::string> files_;
  std::vector<int64_t> labels_;  // of files_
  std::vector<std::string> ignored_;
  std::vector<std::string> links_, around_;  // to folders elsewhere; to ones that this one lies in
};

}  // namespace saccade
