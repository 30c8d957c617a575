// Checks the images of a data set before training or evaluation.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

struct ImageCheck {
  std::vector<std::string> notes;
  std::vector<ImageSize> sizes;  // as each image is shown; 0 x 0 if it was not opened
};

// Opens every file, on several threads: it must be in the folder paths.images (unless paths.allow_outside)
// and look like a complete image (check_image_file). Throws InputError for the first that does not, in the
// order of the set, saying how many there are. With paths.skip_bad_images, unreadable images are reported in
// a returned line, and only a name that leads out of the folder is an error. Damage that only decoding shows
// is not found.
// Images that are rotated by EXIF although the list has the unrotated size are also reported in a line: their
// boxes may refer to the unrotated image.
// So are images whose size differs from the list, and files with several pictures. After this many seconds (a
// sleeping disk, a million files) the remaining files are only checked for existence, which is also reported;
// but images with masks whose size only the file tells are still opened.
ImageCheck check_image_files(const Dataset& images, const DataPaths& paths, double seconds = 30);

// Returns "2 files hold more than one picture ..., for example a.gif".
std::string note_on_several_pictures(int64_t files, const std::string& first);

}  // namespace saccade
