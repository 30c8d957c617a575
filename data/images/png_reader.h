// libpng's state together with the file that it reads. libpng is C and reports errors by longjmp,
// so nothing below a jump owns memory.
#pragma once

#include <png.h>

#include <array>
#include <span>
#include <string>

#include "data/images/codecs.h"

namespace saccade {

class PngReader {
 public:
  explicit PngReader(Bytes file);
  ~PngReader();
  PngReader& operator=(PngReader&&) = delete;

  // Decodes all rows, in the form that `form` requests from libpng. Throws InputError naming the file for all
  // damage, also if the rows of an image of this size do not fill `pixels`.
  void decode(ImageSize size, std::span<uint8_t> pixels, void (*form)(png_structp), const std::string& name);
  std::span<const png_color> palette() const { return {palette_.data(), static_cast<size_t>(colors_)}; }

 private:
  static void on_error(png_structp png, png_const_charp text);
  static void on_warning(png_structp png, png_const_charp text);
  static void read(png_structp png, png_bytep to, size_t count);
  bool read_rows(ImageSize size, std::span<uint8_t> pixels, void (*form)(png_structp));

  Bytes file_;
  size_t at_ = 0, row_end_ = SIZE_MAX;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::array<png_color, 256> palette_{};
  int colors_ = 0;  // in the palette
  char problem_[128] = "";
  bool no_memory_ = false;
};

}  // namespace saccade
