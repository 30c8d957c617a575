// Small data sets on disk for the tests, removed again at the end of each test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "data/formats/coco/coco.h"
#include "data/images/image.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"

namespace saccade {

// A COCO file as a data set. Throws InputError "file: annotation 7: what" for every fault of it.
inline Dataset load_coco(const std::string& annotations, const std::string& images_dir,
                         LabelScheme labels = LabelScheme::kContiguous) {
  return {annotations, images_dir,
          read_coco({.annotations = annotations, .images = images_dir},
                    [&](const std::string& problem) { fail_input("{}: {}", annotations, problem); }),
          labels};
}

}  // namespace saccade

namespace saccade::test {

inline Image noise_image(int64_t height, int64_t width, uint64_t seed) {
  Image image(height, width);
  Rng rng(seed);
  for (uint8_t& v : image.rgb) v = static_cast<uint8_t>(rng.next());
  return image;
}

// The picture formula of scripts/golden/data/make_resize.py.
inline Image picture(int64_t height, int64_t width, int64_t seed) {
  Image image(height, width);
  for (int64_t i = 0; i < height * width * 3; ++i) {
    uint32_t noise = static_cast<uint32_t>((i + 1) * 2654435761 + seed * 40503) >> 24;
    int64_t ramp = (i / 3 * 7 / width + i % 3 * 40 + seed) % 256;
    image.rgb[static_cast<size_t>(i)] = static_cast<uint8_t>((i / 97) % 2 ? noise : ramp);
  }
  return image;
}

inline std::string text_of(const Image& image) {
  return {reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()};
}

// `count` noise images of slightly different sizes; image i (id 10 + i) has i % 4 boxes.
inline Dataset make_noise_set(const TestFolder& dir, int count) {
  std::string images, annotations;
  int id = 0;
  for (int i = 0; i < count; ++i) {
    int64_t h = 40 + i % 7, w = 50 + i % 5;
    write_png(noise_image(h, w, static_cast<uint64_t>(i)), dir / fmt::format("{}.png", i));
    images += fmt::format("{}{{\"id\":{},\"file_name\":\"{}.png\",\"width\":{},\"height\":{}}}", i ? "," : "",
                          10 + i, i, w, h);
    for (int k = 0; k < i % 4; ++k) {
      annotations += fmt::format(
          "{}{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"area\":50,\"iscrowd\":0}"
          "}",
          id ? "," : "", id, 10 + i, 5 + 90 * (k % 2), 3 * k + 1, 2 * k, 10 + k, 12 + i % 3);
      ++id;
    }
  }
  write_bytes(dir / "a.json",
              fmt::format("{{\"images\":[{}],\"annotations\":[{}],\"categories\":[{{\"id\":95,\"name\":"
                          "\"late\"}},{{\"id\":5,\"name\":\"early\"}}]}}",
                          images, annotations));
  return load_coco(dir / "a.json", dir.path());
}

}  // namespace saccade::test
