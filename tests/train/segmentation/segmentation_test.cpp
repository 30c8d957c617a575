// Tests every command with label maps: a small model on drawn shapes, from the data to the exported file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include "data/evaluation/label_counts.h"
#include "data/formats/data_format.h"
#include "data/images/image.h"
#include "data/images/stored_pixels.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/library/saccade.hpp"

namespace saccade {
namespace {

const std::string kSegmenter = R"(
model {
  type: "semantic_fpn"
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [1, 2, 3, 4] }
  semantic_fpn { channels: 16 head_channels: 16 }
}
criterion { class_weights: [0.1, 1, 1, 1, 1, 1, 1] }
optimizer { learning_rate: 3e-3 clip_norm: 1 }
schedule { type: "poly" power: 0.9 warmup_steps: 3 }
)";

class LabelMapCommands : public ::testing::Test {
 protected:
  void SetUp() override {  // only for the first test; the others continue with its run
    if (folder_) return;
    folder_ = std::make_unique<TestFolder>();
    ASSERT_EQ(
        run_command({"data", "shapes", "--output", data(), "--images", "12", "--seed", "1", "--size", "64"}),
        0);
    std::ofstream(path("config.textproto"))
        << kSegmenter << "data { train " << split() << " val " << split() << R"(
  batch_size: 4
  augment { height: 48 width: 48 scale_min: 0.5 scale_max: 2 scale_short_side: 64 cat_max_ratio: 0.75 }
  val_short_side: 64 val_long_side: 96
}
train { epochs: 0 max_steps: 30 log_every: 1 eval_every_epochs: 5 }
)";
    ASSERT_EQ(run_command({"train", "--config", path("config.textproto"), "--output", path("run")}), 0);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / name; }
  static std::string data() { return path("data"); }
  static std::string split() {
    return "{ annotations: \"" + data() + "/label_maps\" images: \"" + data() + "/images\" }";
  }
  static std::string checkpoint() { return path("run/checkpoints/last.safetensors"); }
  static int evaluate(const std::string& json, std::vector<std::string> more = {}) {
    std::vector<std::string> words{
        "eval",     "--checkpoint",     checkpoint(), "--annotations", data() + "/label_maps",
        "--images", data() + "/images", "--json",     path(json),      "--batch-size",
        "1"};  // as predict
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  static int predict(const std::string& output, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"predict",  "--checkpoint", checkpoint(),
                                   "--output", path(output),   data() + "/images"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  // Returns the mean IoU of predicted label maps, from their files.
  static double mean_iou_of(const std::string& output) {
    const auto set = open_dataset(
        {.annotations = data() + "/label_maps", .images = data() + "/images", .wants = {.label_maps = true}});
    LabelCounts counts(set->num_classes());
    for (int64_t i = 0; i < set->num_images(); ++i) {
      const StoredPixels found = read_stored_pixels(path(output) + "/label_maps/" + set->file_name(i));
      EXPECT_FALSE(found.palette.empty());
      counts.add(found.values, set->label_map_of(i, found.size).values);
    }
    return counts.means().iou;
  }
  static double figure(const std::string& json, const std::string& name) {
    const std::string text = read_bytes(path(json));
    return std::stod(text.substr(text.find("\"" + name + "\": ") + name.size() + 4));
  }

 private:
  static inline std::unique_ptr<TestFolder> folder_;
};

TEST_F(LabelMapCommands, Learns) {
  ASSERT_EQ(run_command({"train", "--config", path("config.textproto"), "--output", path("learned"), "--set",
                         "data.overfit=4", "--set", "criterion.class_weights=[1, 1, 1, 1, 1, 1, 1]"}),
            0);
  const std::vector<double> losses = losses_of(path("learned"));
  ASSERT_EQ(losses.size(), 30U);
  EXPECT_LT(std::accumulate(losses.end() - 5, losses.end(), 0.0),
            0.7 * std::accumulate(losses.begin(), losses.begin() + 5, 0.0));
  EXPECT_FALSE(logged_numbers(path("run"), "mIoU").empty());
  EXPECT_FALSE(logged_numbers(path("run"), "IoU/background").empty());
}

TEST_F(LabelMapCommands, IsEvaluatedAsItPredicts) {
  ASSERT_EQ(evaluate("eval.json", {"--per-class"}), 0);
  for (int again = 0; again < 2; ++again) ASSERT_EQ(predict("found"), 0);  // replaces its own files
  EXPECT_DOUBLE_EQ(figure("eval.json", "mIoU"), mean_iou_of("found"));
  EXPECT_NE(read_bytes(path("found/predictions.json")).find("\"label_map\": \"label_maps/000001.png\""),
            std::string::npos);
  // libsaccade says the same of every pixel.
  const Model model(checkpoint(), "cpu");
  EXPECT_TRUE(model.task() == "segmentation" && model.predicts_masks() && model.keeps_image_form());
  for (const auto& image : std::filesystem::directory_iterator(data() + "/images")) {
    const DecodedImage pixels = read_pixels(image.path());
    const StoredPixels want =
        read_stored_pixels(path("found") + "/label_maps/" + image.path().filename().string());
    EXPECT_TRUE(std::ranges::equal(model.segment(pixels.pixels()), want.values)) << image.path();
  }
  EXPECT_THROW(model.segment({}), std::invalid_argument);
  // With windows, mirrored and in several sizes: predictions give the same metrics, unlike the plain ones.
  const std::vector<std::string> looks{"--set",          "eval.window=40", "--set",
                                       "eval.flip=true", "--set",          "eval.scales=[0.75, 1]"};
  ASSERT_EQ(evaluate("looks.json", looks), 0);
  ASSERT_EQ(predict("looks", looks), 0);
  EXPECT_DOUBLE_EQ(figure("looks.json", "mIoU"), mean_iou_of("looks"));
  EXPECT_NE(figure("looks.json", "mIoU"), figure("eval.json", "mIoU"));
  // A window that holds every image gives the same as the whole image.
  ASSERT_EQ(evaluate("window.json", {"--set", "eval.window=500"}), 0);
  EXPECT_NEAR(figure("window.json", "mIoU"), figure("eval.json", "mIoU"), 0.01);
}

TEST_F(LabelMapCommands, GoesThroughTheOtherCommands) {
  EXPECT_EQ(run_command({"report", path("run"), "--output", path("report.html")}), 0);
  const std::string page = read_bytes(path("report.html"));
  for (const char* part : {"mIoU", "Confusion matrix", "Worst images", "Best images"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(run_command({"train", "--config", path("config.textproto"), "--output", path("run"), "--resume",
                         "--max-steps", "31"}),
            0);
  EXPECT_EQ(run_command({"summary", "--config", path("config.textproto")}), 0);
  EXPECT_EQ(run_command({"bench", checkpoint(), "--seconds", "0.01"}), 0);
  EXPECT_EQ(run_command({"data", "show", "--config", path("config.textproto"), "--output", path("shown"),
                         "--images", "2"}),
            0);
  EXPECT_EQ(
      run_command({"data", "check", "--annotations", data() + "/label_maps", "--images", data() + "/images"}),
      0);
}

TEST_F(LabelMapCommands, LearnsFromMasksToo) {
  ASSERT_EQ(
      run_command({"train", "--config", path("config.textproto"), "--output", path("masks"), "--max-steps",
                   "1", "--set", "data.train.annotations=" + data() + "/annotations.json", "--set",
                   "data.val.annotations=" + data() + "/annotations.json"}),
      0);
  // The classes are the same, so the run's checkpoint judges them: but for hidden shapes without a mask,
  // the same maps.
  EXPECT_EQ(run_command({"eval", "--checkpoint", path("masks/checkpoints/last.safetensors"), "--annotations",
                         data() + "/label_maps", "--images", data() + "/images"}),
            0);
}

// Classes of an evaluation's data set that the model lacks, with ids between its own, are never found, and
// move no other class.
TEST_F(LabelMapCommands, IsJudgedOnFurtherClasses) {
  const std::string ids = "Idx\tName\n1\tone\n3\tthree\n";
  for (const auto& [split, list] : {std::pair{"train", ids}, std::pair{"val", ids + "2\ttwo\n"}}) {
    const std::string own = path(std::string("further/") + split + "/");
    std::filesystem::create_directories(own + "masks");
    std::ofstream(own + "masks/objectInfo150.txt") << list;
    for (int i = 0; i < 4; ++i) {
      const std::string name = std::to_string(i) + ".png";
      std::filesystem::create_directories(own + "images");
      write_png(Image(32, 32), own + "images/" + name);
      std::vector<uint16_t> values(32 * 32);
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = k % 3 == 0 ? 1 : k % 7 != 0 ? 3 : list == ids ? 0 : 2;
      write_stored_pixels(own + "masks/" + name, {32, 32}, values);
    }
  }
  const auto of = [&](const char* split, const char* kind) {
    return path(std::string("further/") + split + "/" + kind);
  };
  std::vector<std::string> train{"train",
                                 "--config",
                                 path("config.textproto"),
                                 "--output",
                                 path("judged"),
                                 "--set",
                                 "criterion.class_weights=[]",
                                 "--max-steps",
                                 "1"};
  for (const char* split : {"train", "val"})
    for (const auto& [field, kind] : {std::pair{"annotations", "masks"}, std::pair{"images", "images"}})
      train.insert(train.end(), {"--set", fmt::format("data.{}.{}={}", split, field, of(split, kind))});
  // Outputs that belong to no class must not stand for the additional ones.
  for (const char* outputs : {"0", "5"}) {
    std::filesystem::remove_all(path("judged"));
    std::vector<std::string> words = train;
    words.insert(words.end(), {"--set", std::string("model.num_classes=") + outputs});
    ASSERT_EQ(run_command(words), 0);
    const std::string own = path("judged/checkpoints/last.safetensors");
    ASSERT_EQ(run_command({"eval", "--checkpoint", own, "--annotations", of("val", "masks"), "--images",
                           of("val", "images"), "--batch-size", "1", "--json", path("judged.json")}),
              0);
    std::filesystem::remove_all(path("judged_maps"));
    ASSERT_EQ(
        run_command({"predict", "--checkpoint", own, "--output", path("judged_maps"), of("val", "images")}),
        0);
    LabelCounts counts(4);  // of the values in the files
    for (int i = 0; i < 4; ++i) {
      const std::string name = std::to_string(i) + ".png";
      counts.add(read_stored_pixels(path("judged_maps/label_maps/") + name).values,
                 read_stored_pixels(of("val", "masks") + "/" + name).values);
    }
    EXPECT_DOUBLE_EQ(figure("judged.json", "mIoU"), counts.means().iou);
    EXPECT_NEAR(figure("judged.json", "mIoU"), logged_numbers(path("judged"), "mIoU").back(), 1e-3);
    EXPECT_EQ(run_command({"report", path("judged"), "--output", path("judged.html")}), 0);
  }
}

// Images that are left out for their label maps are left out in every size that is looked at.
TEST_F(LabelMapCommands, LeavesImagesOutInAllSizes) {
  for (const char* set : {"with", "without"}) {
    std::filesystem::create_directories(path(set));
    for (const char* kind : {"images", "label_maps"})
      std::filesystem::copy(data() + "/" + kind, path(std::string(set) + "/" + kind));
  }
  const std::string faulty = "000002.png";
  ASSERT_TRUE(std::filesystem::exists(path("with/label_maps/") + faulty));
  write_stored_pixels(path("with/label_maps/") + faulty, {64, 64}, std::vector<uint16_t>(64 * 64, 200));
  for (const char* kind : {"images", "label_maps"})
    std::filesystem::remove(path(std::string("without/") + kind + "/" + faulty));
  for (const char* batch : {"1", "4"}) {
    const auto judge = [&](const std::string& set) {
      return run_command({"eval", "--checkpoint", checkpoint(), "--annotations", path(set + "/label_maps"),
                          "--images", path(set + "/images"), "--json", path(set + ".json"), "--batch-size",
                          batch, "--set", "eval.scales=[1, 0.5]", "--set", "data.bad_images=skip"});
    };
    ASSERT_EQ(judge("with"), 0);
    ASSERT_EQ(judge("without"), 0);
    EXPECT_EQ(read_bytes(path("with.json")), read_bytes(path("without.json")));
  }
}

TEST_F(LabelMapCommands, RefusesWhatIsNotForLabelMaps) {
  EXPECT_EQ(evaluate("no.json", {"--iou", "segm"}), 2);
  EXPECT_EQ(evaluate("no.json", {"--classes", "ring"}), 2);
  for (const char* flag : {"--crop", "--sampling-points"}) EXPECT_EQ(predict("no", {flag}), 2);
  EXPECT_EQ(predict("no", {"--threshold", "0.5"}), 2);
  auto train = [&](const std::string& set) {
    return run_command({"train", "--config", path("config.textproto"), "--output", path("no"), "--set", set});
  };
  EXPECT_EQ(train("data.mix.cutmix_alpha=1"), 2);
  EXPECT_EQ(train("data.augment.multi_scale_heights=[32]"), 2);
  EXPECT_EQ(train("eval.evaluator=coco"), 2);
  EXPECT_EQ(train("data.train.format=csv"), 2);
  EXPECT_EQ(train("model.num_classes=3"), 2);
  EXPECT_EQ(train("data.train.annotations="), 2);
  EXPECT_EQ(train("data.sampling=class_balanced"), 2);
  // One of the two sets has no pixel of any class.
  for (const char* which : {"train", "val"}) {
    std::filesystem::remove_all(path("blank"));
    std::filesystem::copy(data() + "/label_maps", path("blank"), std::filesystem::copy_options::recursive);
    for (const auto& file : std::filesystem::directory_iterator(path("blank")))
      if (file.path().extension() == ".png")
        write_stored_pixels(file.path(), {64, 64}, std::vector<uint16_t>(64 * 64, 255));
    testing::internal::CaptureStderr();
    EXPECT_EQ(train(fmt::format("data.{}.annotations={}", which, path("blank"))), 2);
    const std::string blank = testing::internal::GetCapturedStderr();
    EXPECT_NE(blank.find("blank: no pixel of its 12 label maps has a class"), std::string::npos) << blank;
  }
  std::ofstream list(path("4097.txt"));
  for (int i = 0; i < 4097; ++i) list << "class " << i << "\n";
  list.close();
  EXPECT_EQ(train("data.label_maps.list=" + path("4097.txt")), 2);
  EXPECT_FALSE(std::filesystem::exists(path("no"))) << "refused before anything is written";
  const std::vector<std::string> centre{"--set", "data.val_crop_pct=0.5", "--set", "data.val_height=32",
                                        "--set", "data.val_width=32"};
  EXPECT_EQ(evaluate("no.json", centre), 2);
  EXPECT_EQ(predict("no", centre), 2);
  // Its classes have the ids of the annotations', but it finds no objects.
  std::ofstream(path("found.json"))
      << R"([{"image_id": 1, "category_id": 1, "bbox": [1, 1, 9, 9], "score": 0.5}])";
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_command({"score", "--annotations", data() + "/annotations.json", "--detections",
                         path("found.json"), "--checkpoint", checkpoint()}),
            2);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_NE(error.find("finds no objects"), std::string::npos) << error;
}

}  // namespace
}  // namespace saccade
