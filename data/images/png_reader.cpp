#include "data/images/png_reader.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "core/tensor/error.h"

namespace saccade {

PngReader::PngReader(Bytes file) : file_(file) {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  SACCADE_CHECK(info_ != nullptr, "[decode_png] libpng cannot be started");
}

PngReader::~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

void PngReader::on_error(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->problem_, text, sizeof(reader->problem_) - 1);
  reader->no_memory_ = std::strstr(text, "memory") != nullptr;  // its messages and zlib's have no codes
  png_longjmp(png, 1);
}

// Only warnings about the pixels count: too many, too few or a wrong checksum.
void PngReader::on_warning(png_structp png, png_const_charp text) {
  if (std::strstr(text, "IDAT") != nullptr) on_error(png, text);
}

void PngReader::read(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->file_.size() - reader->at_) png_error(png, "the PNG file is cut off");
  std::memcpy(to, reader->file_.data() + reader->at_, count);
  reader->at_ += count;
  // After the last row libpng would inflate and discard any further data.
  if (reader->at_ > reader->row_end_) png_error(png, "more data than its pixels need");
}

bool PngReader::read_rows(ImageSize size, std::span<uint8_t> pixels, void (*form)(png_structp)) {
  if (setjmp(png_jmpbuf(png_))) return false;  // NOLINT(cert-err52-cpp): libpng's way
  png_set_read_fn(png_, this, read);
  png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_user_limits(png_, 0x7FFFFFFF, 0x7FFFFFFF);                       // image.cpp has its own
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts, profiles
  png_read_info(png_, info_);
  if (png_get_image_width(png_, info_) != size.width || png_get_image_height(png_, info_) != size.height)
    png_error(png_, "two different sizes");
  png_colorp palette = nullptr;
  if (png_get_PLTE(png_, info_, &palette, &colors_) != 0) {
    colors_ = std::min<int>(colors_, static_cast<int>(palette_.size()));
    std::copy_n(palette, colors_, palette_.begin());
  }
  form(png_);
  const int passes = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  const size_t stride = png_get_rowbytes(png_, info_);
  if (stride != pixels.size() / static_cast<size_t>(size.height)) png_error(png_, "an unknown pixel format");
  for (int pass = 0; pass < passes; ++pass)
    for (size_t y = 0; y < static_cast<size_t>(size.height); ++y) {
      row_end_ = at_ + 4 * stride + (size_t{1} << 16);
      png_read_row(png_, pixels.data() + y * stride, nullptr);
    }
  row_end_ = file_.size();
  png_read_end(png_, nullptr);
  return true;
}

void PngReader::decode(ImageSize size, std::span<uint8_t> pixels, void (*form)(png_structp),
                       const std::string& name) {
  const bool ok = read_rows(size, pixels, form);
  if (no_memory_) fail_memory(name);
  if (!ok) fail_input("{}: damaged image ({})", name, problem_);
}

}  // namespace saccade
