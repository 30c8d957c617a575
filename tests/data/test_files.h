// Small data sets on disk for the tests, removed again at the end of each test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "data/formats/coco.h"
#include "data/images/image.h"
#include "tests/input_error.h"

namespace saccade::test {

// An empty folder of its own.
class TempDir {
 public:
  TempDir() {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() / fmt::format("saccade-test-{}-{}", ::getpid(), counter++);
    std::filesystem::create_directories(path_);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string str() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline Image noise_image(int64_t height, int64_t width, uint64_t seed) {
  Image image(height, width);
  Rng rng(seed);
  for (uint8_t& v : image.rgb) v = static_cast<uint8_t>(rng.next());
  return image;
}

// `count` noise images of slightly different sizes; image i (id 10 + i) has i % 4 boxes.
inline AnnotatedImages make_noise_set(const TempDir& dir, int count) {
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
  write_text(dir / "a.json",
             fmt::format("{{\"images\":[{}],\"annotations\":[{}],\"categories\":[{{\"id\":95,\"name\":"
                         "\"late\"}},{{\"id\":5,\"name\":\"early\"}}]}}",
                         images, annotations));
  return load_coco(dir / "a.json", dir.str());
}

}  // namespace saccade::test
