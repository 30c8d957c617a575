// JPEG through libjpeg-turbo, with the settings that Pillow uses (accurate integer DCT, smooth upsampling),
// so that a model sees the pixels that it was trained on. stb_image rounds its DCT and its colours
// differently.
#pragma once

#include <optional>
#include <span>

#include "data/images/image.h"

namespace saccade {

bool is_jpeg(std::span<const uint8_t> bytes);

// Whether this program was built with libjpeg-turbo.
bool has_libjpeg_turbo();

// The pixels as Pillow's Image.open(..).convert("RGB") gives them, CMYK included. Nothing when the program
// was built without libjpeg-turbo or the library does not know the file's colour layout. Throws InputError
// naming the file when it is damaged. `size` is what its header says.
std::optional<Image> decode_jpeg(std::span<const uint8_t> bytes, const ImageSize& size,
                                 const std::string& name);

}  // namespace saccade
