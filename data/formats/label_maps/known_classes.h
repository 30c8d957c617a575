// The classes of data sets whose files do not name them, with their values in the label maps.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace saccade {

using KnownClasses = std::vector<std::pair<uint32_t, std::string>>;

const KnownClasses& voc_classes();               // 21, the background among them
const KnownClasses& cityscapes_classes();        // the 19 that are evaluated, of files *_labelIds.png
const KnownClasses& cityscapes_train_classes();  // the same of *_labelTrainIds.png

}  // namespace saccade
