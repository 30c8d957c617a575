// Fuzzing: any bytes as the lists of the formats besides COCO; the first one chooses which (scripts/fuzz.sh).
#include "data/formats/cvat/cvat_xml.h"
#include "data/formats/data_format.h"
#include "data/formats/labelme/labelme_json.h"
#include "data/formats/voc/voc_xml.h"
#include "data/formats/yolo/yolo_names.h"
#include "tests/fuzz/target.h"

namespace {

void read_as(const char* format, const std::string& annotations, const std::string& images) {
  saccade::DataPaths paths;
  paths.annotations = annotations;
  paths.images = images;
  paths.format = format;
  paths.wants.masks = true;
  saccade::data_formats().find(format).read(paths, [](const std::string&) {});
}

}  // namespace

SACCADE_FUZZ(formats) {
  if (size == 0) return;
  using namespace saccade::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      attempt([&] { read_as("csv", write("boxes.csv", text), ""); });
      break;
    case 1:
      attempt([&] { saccade::read_voc_xml(write("photo.xml", text)); });
      break;
    case 2:
      attempt([&] { saccade::read_yolo_yaml(write("other.yaml", text)); });
      break;
    case 4:
      attempt([&] { saccade::read_cvat_xml(write("annotations.xml", text), true); });
      break;
    case 5:
      attempt([&] { saccade::read_labelme_json(write("photo.json", text)); });
      break;
    default: {
      std::filesystem::create_directories(folder() + "/images");
      std::filesystem::create_directories(folder() + "/labels");
      write("images/photo.png", "no picture");
      write("labels/photo.txt", text);
      const std::string yaml = write("data.yaml", "names: [a, b]\ntrain: images\n");
      attempt([&] { read_as("yolo", yaml, folder() + "/images"); });
    }
  }
}
