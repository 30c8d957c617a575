// Tests libsaccade's interfaces without the library; scripts/checks/check_library.sh runs its examples.
#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <fstream>
#include <locale>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include <saccade/saccade.h>
#include "core/runtime/cpu/thread_team.h"
#include "core/tensor/allocator.h"
#include "core/tensor/philox.h"
#include "tests/train/program.h"
#include "train/library/saccade.hpp"

namespace saccade {
namespace {

std::vector<uint8_t> noise(int64_t width, int64_t height, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(width * height * 3));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next());
  return bytes;
}

bool same(const std::vector<Prediction>& a, const std::vector<Prediction>& b) {
  return std::ranges::equal(a, b, [](const Prediction& p, const Prediction& q) {
    return p.label == q.label && p.score == q.score && p.x1 == q.x1 && p.y1 == q.y1 && p.x2 == q.x2 &&
           p.y2 == q.y2;
  });
}

// Trains a model for two steps in this process.
class Library : public Cli {
 protected:
  static void SetUpTestSuite() {
    Cli::SetUpTestSuite();
    if (fs::exists(checkpoint())) return;
    Training training(setup("library_run"));
    while (training.step()) EXPECT_GT(training.metrics().at("loss"), 0);
    EXPECT_EQ(training.steps_done(), 2);
  }
  static TrainingSetup setup(const std::string& run) {
    const std::string shapes = (scratch() / "shapes/").string();
    TrainingSetup setup{.config = (scratch() / "tiny.textproto").string(),
                        .output = (scratch() / run).string(),
                        .device = "cpu"};
    for (const char* split : {"train", "val"}) {
      setup.set.push_back("data." + std::string(split) + ".annotations=" + shapes + "annotations.json");
      setup.set.push_back("data." + std::string(split) + ".images=" + shapes + "images");
    }
    return setup;
  }
  static std::string checkpoint() {
    return (scratch() / "library_run/checkpoints/last.safetensors").string();
  }
};

TEST_F(Library, TrainsAsTheProgramDoes) {
  std::string sets;
  for (const std::string& set : setup("").set) sets += " --set " + set;
  expect_works("train --device cpu --config tiny.textproto --output of_program" + sets);
  EXPECT_EQ(read_bytes(checkpoint()), read_bytes(scratch() / "of_program/checkpoints/last.safetensors"));
  // Trains in two halves.
  {
    Training first(setup("halves"));
    EXPECT_TRUE(first.step());
    first.save();
  }
  TrainingSetup rest = setup("halves");
  rest.resume = true;
  Training second(rest);
  EXPECT_TRUE(second.step());
  EXPECT_FALSE(second.step());
  EXPECT_EQ(read_bytes(checkpoint()), read_bytes(scratch() / "halves/checkpoints/last.safetensors"));
  EXPECT_THROW(Training{setup("halves")}, std::invalid_argument);
}

TEST_F(Library, TrainingEndsAndRefusesAsTheProgramDoes) {
  TrainingSetup unscheduled = setup("unscheduled");
  unscheduled.set.push_back("train.eval_every_epochs=9");
  Training training(unscheduled);
  while (training.step()) {
  }
  EXPECT_FALSE(training.step());
  EXPECT_TRUE(fs::exists(scratch() / "unscheduled/checkpoints/best.safetensors"));  // of the last evaluation
  TrainingSetup twice = setup("twice");
  twice.set.insert(twice.set.end(), {"schedule.warmup_steps=1", "schedule.warmup_epochs=1"});
  EXPECT_THROW(Training{twice}, std::invalid_argument);
}

TEST_F(Library, ReadsPixelsInEveryOrder) {
  const Model model(checkpoint(), "cpu");
  EXPECT_TRUE(model.is_detector());
  EXPECT_FALSE(model.is_on_gpu());
  EXPECT_EQ(model.class_names().size(), model.category_ids().size());
  constexpr int64_t W = 50, H = 40, kStride = 200;
  const std::vector<uint8_t> rgb = noise(W, H, 1);
  const auto want = model.predict({.data = rgb.data(), .width = W, .height = H}, 0);
  EXPECT_EQ(want.size(), 30u);  // 5 queries, 6 classes
  EXPECT_TRUE(std::ranges::is_sorted(want, std::ranges::greater{}, &Prediction::score));
  std::vector<uint8_t> bgr(static_cast<size_t>(kStride * H));
  for (int64_t y = 0; y < H; ++y)
    for (int64_t i = 0; i < W * 3; ++i)
      bgr[static_cast<size_t>(y * kStride + i)] = rgb[static_cast<size_t>(y * W * 3 + i / 3 * 3 + 2 - i % 3)];
  const Pixels same_pixels{
      .data = bgr.data(), .width = W, .height = H, .stride = kStride, .order = PixelOrder::kBgr};
  EXPECT_TRUE(same(model.predict(same_pixels, 0), want));
  const std::vector<uint8_t> grey(static_cast<size_t>(W * H), 90),
      grey_rgb(static_cast<size_t>(W * H * 3), 90);
  EXPECT_TRUE(
      same(model.predict({.data = grey.data(), .width = W, .height = H, .order = PixelOrder::kGreyscale}, 0),
           model.predict({.data = grey_rgb.data(), .width = W, .height = H}, 0)));
  for (const Pixels& bad :
       {Pixels{.width = W, .height = H}, Pixels{.data = rgb.data(), .width = W},
        Pixels{.data = rgb.data(), .width = int64_t{1} << 40, .height = H},
        Pixels{.data = rgb.data(), .width = W, .height = H, .stride = 1},
        Pixels{.data = rgb.data(), .width = W, .height = H, .stride = INT64_MAX},
        Pixels{.data = rgb.data(), .width = W, .height = H, .stride = INT64_MAX / H + 1},
        Pixels{.data = rgb.data(), .width = W, .height = H, .order = static_cast<PixelOrder>(9)}})
    EXPECT_THROW(model.predict(bad, 0), std::invalid_argument);
  EXPECT_THROW(model.predict({.data = rgb.data(), .width = W, .height = H}, 2), std::invalid_argument);
  EXPECT_THROW(model.predict_file("none.png"), std::invalid_argument);
  EXPECT_THROW(Model("none.safetensors"), std::invalid_argument);
  EXPECT_THROW(set_library_threads(0), std::invalid_argument);
}

// Threads share a model, and also load models of their own and fail to load others.
TEST_F(Library, ManyThreadsGetWhatOneGets) {
  const Model model(checkpoint(), "cpu");
  constexpr size_t kThreads = 4, kPictures = 8;
  std::vector<std::vector<uint8_t>> images;
  std::vector<std::vector<Prediction>> want;
  auto pixels = [&](size_t i) {
    return Pixels{.data = images[i].data(), .width = 40 + static_cast<int64_t>(i), .height = 50};
  };
  for (size_t i = 0; i < kPictures; ++i) {
    images.push_back(noise(40 + static_cast<int64_t>(i), 50, i));
    want.push_back(model.predict(pixels(i), 0));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(kThreads, 0);
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const Model own(checkpoint(), "cpu");
      for (size_t round = 0; round < 3; ++round)
        for (size_t k = 0; k < kPictures; ++k) {
          const size_t i = (k + t) % kPictures;
          wrong[t] += !same((round == 2 ? own : model).predict(pixels(i), 0), want[i]);
          saccade_model* none = nullptr;
          const std::string name = "none" + std::to_string(t);
          wrong[t] += saccade_model_load(name.c_str(), "cpu", &none) != SACCADE_BAD_INPUT || none ||
                      !std::string(saccade_last_error()).starts_with(name + ":");
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

// The program that uses the library may have called setlocale(LC_ALL, ""), as GTK, Qt and many Python
// programs do, or std::locale::global, in a locale with a decimal comma and points between thousands.
TEST_F(Library, ReadsNumbersWhereTheDecimalMarkIsAComma) {
  const std::string name = "de_DE.UTF-8", folder = (scratch() / "locales").string();
  fs::create_directory(folder);
  const std::string make = "localedef -i de_DE -f UTF-8 " + folder + "/" + name + " >/dev/null 2>&1";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "localedef makes no de_DE (Debian's package locales)";
  const std::vector<uint8_t> rgb = noise(50, 40, 1);
  const Pixels pixels{.data = rgb.data(), .width = 50, .height = 40};
  const auto want = Model(checkpoint(), "cpu").predict(pixels, 0);
  struct Comma {
    explicit Comma(const std::string& folder, const std::string& name) {
      ::setenv("LOCPATH", folder.c_str(), 1);
      std::locale::global(std::locale(name));  // which calls setlocale
    }
    ~Comma() {
      std::locale::global(std::locale::classic());
      ::unsetenv("LOCPATH");
    }
  } comma(folder, name);
  ASSERT_EQ(std::strtod("0,5", nullptr), 0.5);
  saccade_model* model = nullptr;
  ASSERT_EQ(saccade_model_load(checkpoint().c_str(), "cpu", &model), SACCADE_OK) << saccade_last_error();
  saccade_model_free(model);
  EXPECT_TRUE(same(Model(checkpoint(), "cpu").predict(pixels, 0), want));
  Training training(setup("with_comma"));
  while (training.step()) EXPECT_GT(training.metrics().at("loss"), 0);
  EXPECT_EQ(read_bytes(checkpoint()), read_bytes(scratch() / "with_comma/checkpoints/last.safetensors"));
}

TEST_F(Library, HasACInterface) {
  EXPECT_EQ(std::string(saccade_version()), library_version());
  saccade_model* model = nullptr;
  ASSERT_EQ(saccade_model_load(checkpoint().c_str(), "cpu", &model), SACCADE_OK) << saccade_last_error();
  EXPECT_EQ(saccade_model_is_detector(model), 1);
  EXPECT_EQ(saccade_model_is_on_gpu(model), 0);
  const int32_t classes = saccade_model_class_count(model);
  const Model same_model(checkpoint(), "cpu");
  ASSERT_EQ(static_cast<size_t>(classes), same_model.class_names().size());
  EXPECT_EQ(saccade_model_class_name(model, 1), same_model.class_names()[1]);
  EXPECT_EQ(saccade_model_category_id(model, 1), same_model.category_ids()[1]);
  EXPECT_EQ(saccade_model_class_name(model, classes), nullptr);
  EXPECT_EQ(saccade_model_category_id(model, -1), -1);

  const std::vector<uint8_t> rgb = noise(30, 20, 1);
  const saccade_pixels images[2] = {{rgb.data(), 30, 20, 0, SACCADE_RGB, 0},
                                    {rgb.data(), 20, 30, 0, SACCADE_BGR, 0}};
  saccade_result* result = nullptr;
  ASSERT_EQ(saccade_predict(model, images, 2, 0, &result), SACCADE_OK) << saccade_last_error();
  const auto want = same_model.predict(
      {{.data = rgb.data(), .width = 30, .height = 20},
       {.data = rgb.data(), .width = 20, .height = 30, .stride = 0, .order = PixelOrder::kBgr}},
      0);
  for (size_t n = 0; n < 2; ++n) {
    ASSERT_EQ(saccade_result_count(result, n), want[n].size());
    for (size_t i = 0; i < want[n].size(); ++i) {
      saccade_prediction p;
      ASSERT_EQ(saccade_result_get(result, n, i, &p), SACCADE_OK);
      EXPECT_TRUE(p.label == want[n][i].label && p.score == want[n][i].score && p.y2 == want[n][i].y2);
    }
  }
  saccade_prediction p;
  EXPECT_EQ(saccade_result_get(result, 0, 99, &p), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_result_get(result, 2, 0, &p), SACCADE_BAD_INPUT);
  saccade_result_free(result);
  // Errors are a status and a line, never an exception.
  EXPECT_EQ(saccade_predict(nullptr, images, 1, 0, &result), SACCADE_BAD_INPUT);
  EXPECT_EQ(result, nullptr);
  EXPECT_STREQ(saccade_last_error(), "model: a null pointer");
  EXPECT_EQ(saccade_predict(model, nullptr, 1, 0, &result), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_predict(model, images, 1, 0, nullptr), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_predict_file(model, "none.png", 0, &result), SACCADE_BAD_INPUT);
  const saccade_pixels later{rgb.data(), 30, 20, 0, SACCADE_RGB, 7},
      empty{rgb.data(), 30, 0, 0, SACCADE_RGB, 0};
  EXPECT_EQ(saccade_predict(model, &later, 1, 0, &result), SACCADE_BAD_INPUT);
  EXPECT_STREQ(saccade_last_error(), "pixels: reserved is 7, expected 0");
  EXPECT_EQ(saccade_predict(model, &empty, 1, 0, &result), SACCADE_BAD_INPUT);
  EXPECT_STREQ(saccade_last_error(), "pixels: 30 x 0 (width x height), expected at least 1 x 1");
  // The error is one line, whatever a name contains.
  const std::string odd = "a\n\x1b[31m" + std::string(20000, 'x');
  EXPECT_EQ(saccade_predict_file(model, odd.c_str(), 0, &result), SACCADE_BAD_INPUT);
  const std::string line = saccade_last_error();
  EXPECT_TRUE(line.starts_with("a\\n\\x1b[31mxxx") && line.size() < 9000) << line.size();
  saccade_model* none = model;
  EXPECT_EQ(saccade_model_load(nullptr, "cpu", &none), SACCADE_BAD_INPUT);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(saccade_set_threads(0), SACCADE_BAD_INPUT);
  saccade_model_free(model);
  saccade_model_free(nullptr);
  saccade_result_free(nullptr);
  EXPECT_EQ(saccade_result_count(nullptr, 0), 0u);
}

TEST_F(Library, TellsWhatAModelIs) {
  const Model model(checkpoint(), "cpu");
  EXPECT_EQ(model.task(), "detection");
  EXPECT_FALSE(model.predicts_masks());
  EXPECT_EQ(model.image_height(), 64);
  EXPECT_EQ(model.image_width(), 64);
  EXPECT_FALSE(model.keeps_image_form());
  saccade_model* same_model = nullptr;
  ASSERT_EQ(saccade_model_load(checkpoint().c_str(), "cpu", &same_model), SACCADE_OK) << saccade_last_error();
  EXPECT_STREQ(saccade_model_task(same_model), "detection");
  EXPECT_EQ(saccade_model_predicts_masks(same_model), 0);
  int64_t height = 0, width = 0;
  int32_t keeps_form = 1;
  EXPECT_EQ(saccade_model_image_size(same_model, &height, &width, &keeps_form), SACCADE_OK);
  EXPECT_TRUE(height == 64 && width == 64 && keeps_form == 0);
  EXPECT_EQ(saccade_model_image_size(same_model, &height, nullptr, &keeps_form), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_model_image_size(nullptr, &height, &width, &keeps_form), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_model_task(nullptr), nullptr);
  EXPECT_EQ(saccade_model_predicts_masks(nullptr), 0);
  saccade_model_free(same_model);
}

// Files in memory give the same as files on disk, through every interface.
TEST_F(Library, ReadsFilesInMemory) {
  const std::string path = (scratch() / image_).string();
  const std::string bytes = read_bytes(path);
  const EncodedImage file{.data = reinterpret_cast<const uint8_t*>(bytes.data()), .size = bytes.size()};
  const Model model(checkpoint(), "cpu");
  const auto want = model.predict_file(path, 0);
  auto boxes = [](const std::vector<MaskedPrediction>& found) {
    return std::vector<Prediction>(found.begin(), found.end());
  };
  EXPECT_TRUE(same(boxes(model.predict_encoded({file}, 0).front()), want));
  const auto two = model.predict_encoded({file, file}, 0);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_TRUE(same(boxes(two[0]), boxes(two[1])));
  EXPECT_TRUE(same(model.predict(decode_pixels(file).pixels(), 0), want));
  EXPECT_EQ(read_pixels(path).rgb, decode_pixels(file).rgb);

  saccade_model* loaded = nullptr;
  ASSERT_EQ(saccade_model_load(checkpoint().c_str(), "cpu", &loaded), SACCADE_OK) << saccade_last_error();
  const saccade_encoded encoded{file.data, file.size, nullptr};
  saccade_result* result = nullptr;
  ASSERT_EQ(saccade_predict_encoded(loaded, &encoded, 1, 0, &result), SACCADE_OK) << saccade_last_error();
  std::vector<saccade_prediction> found(saccade_result_count(result, 0));
  ASSERT_EQ(found.size(), want.size());
  ASSERT_EQ(saccade_result_copy(result, 0, found.data(), found.size()), SACCADE_OK);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i].label == want[i].label && found[i].score == want[i].score &&
                found[i].x1 == want[i].x1 && found[i].y2 == want[i].y2);
  EXPECT_EQ(saccade_result_copy(result, 0, found.data(), found.size() - 1), SACCADE_BAD_INPUT);
  EXPECT_STREQ(saccade_last_error(), "count: 29, expected 30, the predictions of image 0");
  EXPECT_EQ(saccade_result_copy(result, 1, nullptr, 0), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_result_copy(result, 0, nullptr, found.size()), SACCADE_BAD_INPUT);
  saccade_result_free(result);

  saccade_image* image = nullptr;
  saccade_pixels pixels;
  for (const bool is_file : {true, false}) {
    ASSERT_EQ(is_file ? saccade_image_read(path.c_str(), &image) : saccade_image_decode(&encoded, &image),
              SACCADE_OK);
    ASSERT_EQ(saccade_image_pixels(image, &pixels), SACCADE_OK);
    EXPECT_TRUE(pixels.width == 64 && pixels.height == 64 && pixels.stride == 0 &&
                pixels.order == SACCADE_RGB);
    EXPECT_TRUE(std::ranges::equal(std::span(pixels.data, size_t{64} * 64 * 3), decode_pixels(file).rgb));
    saccade_image_free(image);
  }
  saccade_image_free(nullptr);
  EXPECT_EQ(saccade_image_pixels(nullptr, &pixels), SACCADE_BAD_INPUT);

  // What is no image is named by the given name, or by its place.
  struct Case {
    saccade_encoded encoded;
    const char* error;
  };
  const uint8_t none[] = "no image";
  for (const Case& c : {Case{{none, 8, "a.png"}, "a.png: not an image in a supported format, expected "},
                        Case{{none, 8, nullptr}, "image 1: not an image in a supported format, expected "},
                        Case{{none, 0, nullptr}, "image 1: the file is empty, expected an image"},
                        Case{{nullptr, 8, nullptr}, "image 1: no data, expected the bytes of an image"},
                        Case{{file.data, file.size / 2, "a\nb"}, "a\\nb: "}}) {
    const saccade_encoded images[2] = {encoded, c.encoded};
    EXPECT_EQ(saccade_predict_encoded(loaded, images, 2, 0, &result), SACCADE_BAD_INPUT);
    EXPECT_TRUE(std::string(saccade_last_error()).starts_with(c.error)) << saccade_last_error();
    EXPECT_EQ(result, nullptr);
    EXPECT_EQ(saccade_image_decode(&c.encoded, &image), SACCADE_BAD_INPUT);
    EXPECT_EQ(image, nullptr);
  }
  EXPECT_EQ(saccade_predict_encoded(loaded, nullptr, 1, 0, &result), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_image_read("none.png", &image), SACCADE_BAD_INPUT);
  EXPECT_EQ(saccade_image_read(nullptr, &image), SACCADE_BAD_INPUT);
  saccade_model_free(loaded);
}

int64_t resident_pages() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST_F(Library, TenThousandInferencesTakeNoMemory) {
  const Model model(checkpoint(), "cpu");
  const int threads = thread_count();
  set_library_threads(1);
  const std::vector<uint8_t> rgb = noise(64, 64, 1);
  auto run = [&](int times) {
    for (int i = 0; i < times; ++i)
      ASSERT_EQ(model.predict({.data = rgb.data(), .width = 64, .height = 64}, 0).size(), 30u);
  };
  const bool is_fast = std::getenv("SACCADE_FAST") != nullptr;
  run(200);
  const AllocatorStats before = allocator(Device::kCpu).stats();
  const int64_t pages = resident_pages();
  run(is_fast ? 200 : 10'000);
  const AllocatorStats after = allocator(Device::kCpu).stats();
  EXPECT_EQ(after.active_bytes, before.active_bytes);
  EXPECT_EQ(after.system_requests, before.system_requests);
  EXPECT_TRUE(is_fast || resident_pages() - pages < 64)
      << resident_pages() << " - " << pages;  // a quarter of a MB, 26 bytes an inference
  set_library_threads(threads);
}

}  // namespace
}  // namespace saccade
