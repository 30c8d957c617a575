// The usual layouts of YOLO data sets.
#pragma once

#include <string>

#include "data/formats/data_format.h"

namespace saccade {

// Of Ultralytics, Roboflow and CVAT: a data.yaml that names the images of the splits; Darknet's obj.data; a
// list of classes beside images and labels, in folders of their own or, as labelImg leaves them, in one.
// Throws InputError where a file names what is not there.
DataSplits find_yolo(const std::string& folder);
// Of a data.yaml or an obj.data of any name.
DataSplits find_yolo_in_file(const std::string& file);

}  // namespace saccade
