// The kinds of TIFF files that are read.
#pragma once

#include <tiffio.h>

#include <cstdint>
#include <string>

#include "core/types/image_size.h"

namespace saccade {

struct TiffLayout {
  ImageSize size;
  int orientation = 1;
  uint16_t photometric = 0, bits = 1, samples = 1, compression = 1;
  bool is_separate = false;    // a plane for each sample
  bool is_multiplied = false;  // by alpha, the last sample
  size_t colours() const {
    return photometric == PHOTOMETRIC_RGB ? 3 : photometric == PHOTOMETRIC_SEPARATED ? 4 : 1;
  }
};

// Throws InputError for the kinds that are not read, naming them.
void check_tiff_kind(const TiffLayout& layout, uint16_t sample_format, const std::string& name);

}  // namespace saccade
