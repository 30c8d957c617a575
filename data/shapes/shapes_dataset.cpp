#include "data/shapes/shapes_dataset.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <numeric>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/formats/json.h"
#include "core/runtime/tasks.h"
#include "core/tensor/error.h"
#include "data/formats/coco/segmentation_json.h"
#include "data/images/draw.h"
#include "data/images/stored_pixels.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string image_name(int64_t index) { return fmt::format("{:06}.png", index + 1); }

std::string annotations_json(const ShapesOptions& options, const std::vector<ShapesImage>& all) {
  std::string out = fmt::format(
      "{{\"info\":{{\"description\":\"Synthetic shapes drawn by "
      "saccade\",\"images\":{},\"seed\":{}}},\n\"images\":[",
      options.images, options.seed);
  for (size_t i = 0; i < all.size(); ++i) {
    out += fmt::format("{}{{\"id\":{},\"file_name\":\"{}\",\"width\":{},\"height\":{}}}", i ? ",\n" : "\n",
                       i + 1, image_name(static_cast<int64_t>(i)), all[i].image.width, all[i].image.height);
  }
  out += "],\n\"annotations\":[";
  int64_t id = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Annotation& a : all[i].annotations) {
      out += fmt::format(
          "{}{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"area\":{},\"iscrowd\":0,"
          "\"segmentation\":{}}}",
          id ? ",\n" : "\n", id + 1, i + 1, a.category_id, a.bbox[0], a.bbox[1], a.bbox[2], a.bbox[3], a.area,
          segmentation_json(*a.segmentation));
      ++id;
    }
  }
  out += "],\n\"categories\":[";
  for (size_t i = 0; i < shape_names().size(); ++i) {
    out += fmt::format("{}{{\"id\":{},\"name\":{}}}", i ? ",\n" : "\n", i + 1, json_quote(shape_names()[i]));
  }
  return out + "]}\n";
}

// The classes of the values of label maps.
std::string class_list() {
  std::string lines = "background\n";
  for (const std::string& name : shape_names()) lines += name + "\n";
  return lines;
}

}  // namespace

const std::vector<std::string>& shape_names() {
  static const std::vector<std::string> names = {"circle", "square", "triangle", "star", "ring", "cross"};
  return names;
}

void write_shapes_dataset(const std::string& folder, const ShapesOptions& options) {
  if (options.images < 1 || options.images > 999'999) {
    fail_input("shapes: {} images, expected 1 to 999999", options.images);
  }
  if (options.min_side < kMinShapesSide || options.max_side < options.min_side ||
      options.max_side > kMaxShapesSide) {
    fail_input("shapes: sides of {} to {} pixels, expected {} to {}, and the smallest one first",
               options.min_side, options.max_side, kMinShapesSide, kMaxShapesSide);
  }
  fs::path base = folder;
  for (const char* name : {"annotations.json", "images", "label_maps"}) {
    std::error_code error;
    if (fs::exists(base / name, error))
      fail_input("{}: already exists, choose another folder", (base / name).string());
  }
  std::error_code error;
  const MadeFolder made(folder);
  const std::string temporary = make_own_folder((base / "images.tmp").string()),
                    temporary_maps = make_own_folder((base / "label_maps.tmp").string());
  TemporaryPath images(temporary), maps(temporary_maps);
  std::vector<int64_t> values(shape_names().size() + 1);
  std::iota(values.begin(), values.end(), 0);
  const std::vector<uint32_t> palette = label_palette(values);
  std::vector<ShapesImage> all(static_cast<size_t>(options.images));
  std::atomic<int64_t> done{0};
  run_tasks(options.images, options.threads, [&](int64_t i) {
    ShapesImage& drawn = all[static_cast<size_t>(i)];
    drawn = draw_shapes_image(options, i);
    write_png(drawn.image, temporary + "/" + image_name(i));
    write_stored_pixels(temporary_maps + "/" + image_name(i), drawn.label_map.size, drawn.label_map.values,
                        palette);
    drawn.image.rgb = {};
    drawn.label_map = {};
    if (options.progress) options.progress(++done);
  });
  write_file(temporary_maps + "/classes.txt", class_list());
  std::vector<std::unique_ptr<TemporaryPath>> placed;
  for (const auto& [from, name] : {std::pair{temporary, "images"}, std::pair{temporary_maps, "label_maps"}}) {
    fs::rename(from, base / name, error);
    if (error) fail_input("{}: cannot make the folder: {}", (base / name).string(), error.message());
    placed.push_back(std::make_unique<TemporaryPath>((base / name).string()));
  }
  write_file((base / "annotations.json").string(), annotations_json(options, all));
  for (const auto& path : placed) path->keep();
}

}  // namespace saccade
