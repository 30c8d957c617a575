// What a DataLoader reads: images with their ground truth, by index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types/image_size.h"
#include "data/images/sample.h"

namespace saccade {

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual const std::string& name() const = 0;  // the file or folder it came from, for messages
  virtual int64_t num_images() const = 0;
  virtual std::string image_path(int64_t index) const = 0;
  // How results refer to the image.
  virtual int64_t image_id(int64_t index) const = 0;
  virtual const std::string& file_name(int64_t index) const = 0;
  // Which file names the image, and where in it; "": none does.
  virtual std::string place_of(int64_t /*index*/) const { return {}; }
  // Labels of its objects (crowds not counted), or its own; and its size, 0 x 0 where that is not known before it is read.
  virtual std::vector<int64_t> labels_of(int64_t /*index*/) const { return {}; }
  virtual ImageSize size_of(int64_t /*index*/) const { return {}; }
  // Links in the folder of images that were followed when it was listed: what they lead to counts as inside.
  virtual std::vector<std::string> followed_links() const { return {}; }
  // The decoded image with what training sees of its ground truth.
  virtual Sample make_sample(int64_t index, Image image) const = 0;
};

}  // namespace saccade
