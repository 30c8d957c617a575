// The images of a data set, looked at before anything is trained on or judged by them.
#pragma once

#include <string>
#include <vector>

#include "data/formats/data_format.h"
#include "data/formats/ground_truth.h"

namespace saccade {

struct ImageCheck {
  std::vector<std::string> notes;
  std::vector<ImageSize> sizes;  // of each image as it is shown; 0 x 0 where it was not looked into
};

// Every file is opened, on several threads: it must lie in the folder paths.images (unless
// paths.allow_outside) and look like a whole image (check_image_file). Throws InputError for the first that
// does not, in the order of the set, saying how many there are; with paths.skip_bad_images, images that
// cannot be read are told in a line that is returned, and only a name that leads out of the folder is an
// error. What only decoding shows is not found.
// Images that are turned by EXIF, where the list has the size from before, are told in a line too: their
// boxes may be from before.
// So are those of another size than the list says, and files of several pictures. After so many seconds (a
// disk that is asleep, a million files) the rest of the files is only looked for, which is told as well; but
// images with masks whose size only their file says are looked into.
ImageCheck check_image_files(const Dataset& images, const DataPaths& paths, double seconds = 30);

// "2 files hold more than one picture ..., first a.gif".
std::string note_on_several_pictures(int64_t files, const std::string& first);

// Adds a note on the images of the folder that neither these lists nor those of the splits beside them (with
// `read`) name. Where looking takes more than so many seconds, that is told in its place.
void note_unnamed_images(GroundTruth& truth, const DataPaths& paths,
                         GroundTruth (*read)(const DataPaths& paths, const ProblemReport& report),
                         double seconds = 10);

// The masks of a data set, whatever files they were read from.
// Reports segmentations that are no masks ("NAME: annotation 7: mask: ..."), also runs of another size than
// their image where that is known, and takes them away: the objects keep their boxes. Polygons of fewer than
// three points are left out, which a note counts.
void check_masks(GroundTruth& truth, const std::string& name, const ProblemReport& report);

// Takes the polygons of fewer than three points away; how many they were.
int64_t leave_out_points(Segmentation& segmentation);

// Labelled data that lies in the folder of a data set without being read.
// Files of labels of the splits' format, and lists of them, that none of the sets is read from, in lines. The
// place of `own`, or the folder of the file that describes it, is looked through with all that lies below it,
// but for links to folders, which are told. Where nothing is read there,
// it is the folder that all of the sets lie in.
std::vector<std::string> notes_on_unused(const std::string& place, const DataSplits& own,
                                         const std::vector<DataSplits>& all);

}  // namespace saccade
