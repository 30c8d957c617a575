// The sections of the page; dataset_page.cpp puts them together.
#pragma once

#include "data/pages/picture.h"
#include "data/pages/split.h"

namespace saccade::report {

// Data that the sections share.
struct Dataset {
  const std::vector<ReportedSplit>& splits;
  const ImageLooks& looks;
  std::vector<Category> categories;      // of all splits, by id
  std::vector<std::string> class_names;  // of the categories
  // By split and image: indices in the list of annotations.
  std::vector<std::vector<std::vector<size_t>>> boxes_of;
  bool has_boxes = true;  // otherwise class folders or label maps
  bool has_labels = false;
  bool has_masks = false;

  size_t class_of(int64_t category_id) const;  // class_names.size() if it is unknown
  const ImageInfo& image(ImagePlace place) const { return splits[place.split].truth.images[place.image]; }
  // Returns "val: 12.jpg", with the split if there are several.
  std::string name_of(ImagePlace place) const;
  Instance drawn(const ReportedSplit& split, size_t annotation, const Image& image) const;
};
Dataset make_dataset(const std::vector<ReportedSplit>& splits, const ImageLooks& looks);

void add_overview(Page& page, const Dataset& data);
void add_classes(Page& page, const Dataset& data);
void add_boxes(Page& page, const Dataset& data);
void add_images(Page& page, const Dataset& data);
void add_sizes(Page& page, const Dataset& data);
// The classes and images of label maps.
void add_label_classes(Page& page, const Dataset& data);
void add_label_images(Page& page, const Dataset& data);
void add_duplicates(Page& page, const Dataset& data, int64_t looked_at);
void add_odd_boxes(Page& page, const Dataset& data);
void add_faults(Page& page, const Dataset& data);

}  // namespace saccade::report
