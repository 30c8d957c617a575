// Tests published classifiers: convert finds the model, the classes and the size of the images, and predict's
// scores are those of timm, torchvision and transformers (scripts/golden/published/classifiers.py).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/tensor/tensor.h"
#include "models/weights/weight_names.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/checkpoints/checkpoint.h"

namespace saccade {
namespace {

const std::string kClassifiers = SACCADE_SOURCE_DIR "/tests/golden/classifiers/";

// Returns the scores of predictions.json by class.
std::map<std::string, double> scores_of(const std::string& json) {
  std::map<std::string, double> out;
  const std::regex entry(R"re(\{"class": "([^"]*)", "score": ([^}]*)\})re");
  for (std::sregex_iterator it(json.begin(), json.end(), entry), end; it != end; ++it)
    out[(*it)[1]] = std::stod((*it)[2]);
  return out;
}

TEST(PublishedClassifiers, PredictAsTheirOwners) {
  TestFolder dir;
  std::ifstream expected(kClassifiers + "expected.txt");
  int cases = 0;
  for (std::string line; std::getline(expected, line); ++cases) {
    std::istringstream words(line);
    std::string name, file, label;
    words >> name >> file;
    SCOPED_TRACE(name);
    const std::string checkpoint = dir / (name + ".safetensors");
    testing::internal::CaptureStdout();
    ASSERT_EQ(run_command({"convert", kClassifiers + file, checkpoint}), 0);
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_NE(said.find("classifier with 7 classes"), std::string::npos) << said;
    ASSERT_EQ(run_command({"predict", "--checkpoint", checkpoint, "--output", dir / name,
                           kClassifiers + "picture.png"}),
              0);
    const std::map<std::string, double> scores = scores_of(read_bytes(dir / name + "/predictions.json"));
    EXPECT_EQ(scores.size(), 5u);
    for (double score; words >> label >> score;) {
      ASSERT_TRUE(scores.contains("class " + label)) << label;
      EXPECT_NEAR(scores.at("class " + label), score, 1e-4) << label;
    }
  }
  EXPECT_EQ(cases, 10);
}

// A head of 1,000 outputs gets ImageNet's names; weights without a head, or with further tensors, stay plain.
TEST(PublishedClassifiers, NamesAndWhatIsNotOne) {
  EXPECT_EQ(imagenet_class_names().size(), 1000u);
  EXPECT_EQ(std::set(imagenet_class_names().begin(), imagenet_class_names().end()).size(), 1000u);
  EXPECT_EQ(imagenet_class_names().front(), "tench");
  EXPECT_EQ(imagenet_class_names().at(207), "golden retriever");
  EXPECT_EQ(imagenet_class_names().back(), "toilet tissue");
  TestFolder dir;
  const SafetensorsReader file(kClassifiers + "timm_swin.safetensors");
  NamedValues thousand, headless, more;
  for (const WeightEntry& e : file.entries()) {
    const bool is_head = e.name.starts_with("head.");
    Shape shape = e.shape;
    if (is_head) shape[0] = 1000;
    thousand.emplace_back(e.name, is_head ? Tensor::zeros(shape) : file.read(e.name));
    if (!is_head) headless.emplace_back(thousand.back());
  }
  more = thousand;
  more.emplace_back("layers.0.blocks.0.ls1.gamma", Tensor::zeros({8}));
  const auto convert = [&](const char* name, const NamedValues& tensors) {
    write_safetensors(dir / name, tensors, {});
    testing::internal::CaptureStdout();
    const int status = run_command({"convert", dir / name, dir / (std::string(name) + ".safetensors")});
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_EQ(status, 0) << said;
    return said;
  };
  EXPECT_NE(convert("thousand", thousand).find("the classes are ImageNet's"), std::string::npos);
  EXPECT_EQ(read_checkpoint_info(SafetensorsReader(dir / "thousand.safetensors")).class_names,
            imagenet_class_names());
  EXPECT_NE(convert("headless", headless).find("for train --init-from"), std::string::npos);
  EXPECT_NE(convert("more", more).find("not one of the known models"), std::string::npos);
}

}  // namespace
}  // namespace saccade
