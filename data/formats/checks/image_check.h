// The images of a data set, looked at before anything is trained on or judged by them.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"

namespace saccade {

struct ImageCheck {
  std::vector<std::string> notes;
  std::vector<ImageSize> sizes;  // of each image as it is shown; 0 x 0 where it was not looked into
};

// Every file is opened, on several threads: it must be in the folder paths.images (unless
// paths.allow_outside) and look like a whole image (check_image_file). Throws InputError for the first that
// does not, in the order of the set, saying how many there are; with paths.skip_bad_images, images that
// cannot be read are reported in a line that is returned, and only a name that leads out of the folder is an
// error. What only decoding shows is not found.
// Images that are rotated by EXIF, where the list has the size from before, are reported in a line too: their
// boxes may be from before.
// So are those of another size than the list says, and files of several pictures. After this many seconds (a
// disk that is asleep, a million files) the rest of the files is only looked for, which is told as well; but
// images with masks whose size only their file says are looked into.
ImageCheck check_image_files(const Dataset& images, const DataPaths& paths, double seconds = 30);

// "2 files hold more than one picture ..., first a.gif".
std::string note_on_several_pictures(int64_t files, const std::string& first);

}  // namespace saccade
