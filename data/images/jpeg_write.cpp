#include <cstdio>  // must precede jpeglib.h

#include <jpeglib.h>

#include <cstdlib>

#include "core/tensor/error.h"
#include "data/images/image.h"

namespace saccade {

std::vector<uint8_t> encode_jpeg(const Image& image, int quality) {
  SACCADE_CHECK(image.height > 0 && image.width > 0 && image.height <= JPEG_MAX_DIMENSION &&
                    image.width <= JPEG_MAX_DIMENSION,
                "[encode_jpeg] size {} x {}, expected sides of 1 to {}", image.width, image.height,
                JPEG_MAX_DIMENSION);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(
      &errors);  // for a picture in memory the only error is a lack of memory, which ends the program
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.optimize_coding = TRUE;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.row(static_cast<int64_t>(info.next_scanline)));  // it is only read
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<uint8_t> out(bytes, bytes + size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return out;
}

}  // namespace saccade
