#include "data/formats/label_maps/known_classes.h"

namespace saccade {
namespace {

KnownClasses numbered(const std::vector<const char*>& names) {
  KnownClasses classes;
  for (const char* name : names) classes.emplace_back(static_cast<uint32_t>(classes.size()), name);
  return classes;
}

}  // namespace

const KnownClasses& voc_classes() {
  static const KnownClasses kClasses =
      numbered({"background", "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",
                "car",        "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",
                "motorbike",  "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"});
  return kClasses;
}

const KnownClasses& cityscapes_classes() {
  static const KnownClasses kClasses{
      {7, "road"},  {8, "sidewalk"},       {11, "building"},     {12, "wall"},       {13, "fence"},
      {17, "pole"}, {19, "traffic light"}, {20, "traffic sign"}, {21, "vegetation"}, {22, "terrain"},
      {23, "sky"},  {24, "person"},        {25, "rider"},        {26, "car"},        {27, "truck"},
      {28, "bus"},  {31, "train"},         {32, "motorcycle"},   {33, "bicycle"}};
  return kClasses;
}

const KnownClasses& cityscapes_train_classes() {
  static const KnownClasses kClasses = [] {
    std::vector<const char*> names;
    for (const auto& [id, name] : cityscapes_classes()) names.push_back(name.c_str());
    return numbered(names);
  }();
  return kClasses;
}

}  // namespace saccade
