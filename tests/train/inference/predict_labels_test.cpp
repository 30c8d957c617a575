// Tests saccade predict: labels for tools, pictures in other forms or none, the standard input, other sizes
// of images.
#include <gtest/gtest.h>

#include "data/images/image.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

class PredictLabels : public Cli {
 protected:
  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }
  static std::string text_of(const std::string& name) { return read_bytes((scratch() / name).string()); }
};

const std::string kAnyScore = "predict --threshold 0 --checkpoint " + kCheckpoint + " --output ";

TEST_F(PredictLabels, HaveAnEntryForEveryImage) {
  struct Row {
    const char *form, *file, *image, *object;
  };
  for (const auto& [form, file, image, object] :
       {Row{"coco", "annotations.json", "\"file_name\":", "\"score\":"},
        Row{"cvat", "annotations.xml", "<image ", "<box "},
        Row{"labelstudio", "tasks.json", "\"data\":", "\"score\":"}}) {
    const std::string out = std::string("labels_") + form;
    expect_works(kAnyScore + out + " --no-pictures --max 2 --to " + form + " shapes/images");
    const std::string text = text_of(out + "/" + form + "/" + file);
    EXPECT_EQ(count(text, image), 4) << text;
    EXPECT_EQ(count(text, object), 8) << text;
    EXPECT_TRUE(fs::exists(scratch() / out / "detections.json"));
    EXPECT_EQ(count(text_of(out + "/detections.json"), "\"picture\""), 0);
    EXPECT_FALSE(fs::exists(scratch() / out / "000001.png"));
    expect_refused(kAnyScore + out + " --to " + form + " shapes/images",
                   out + "/" + form + ": already exists");
    // Images in which nothing is found are included.
    expect_works("predict --threshold 1 --checkpoint " + kCheckpoint + " --output none_" + form +
                 " --no-pictures --to " + form + " shapes/images");
    EXPECT_EQ(count(text_of(std::string("none_") + form + "/" + form + "/" + file), image), 4);
  }
  // The output is a data set.
  expect_works("data check --annotations labels_coco/coco/annotations.json --images shapes/images");
  for (const std::string form : {"yolo", "voc"})
    expect_works(kAnyScore + "labels_" + form + " --no-pictures --max 2 --to " + form + " shapes/images");
  EXPECT_EQ(count(text_of("labels_yolo/yolo/labels/000001.txt"), "\n"), 2);
  EXPECT_EQ(count(text_of("labels_voc/voc/Annotations/000001.xml"), "<object>"), 2);
  EXPECT_EQ(count(text_of("labels_voc/voc/Annotations/000001.xml"), "<score>"), 2);
  fs::copy_file(scratch() / "shapes/images/000001.png", scratch() / "000001.jpg");
  expect_refused(kAnyScore + "labels_two --to yolo 000001.jpg shapes/images/000001.png",
                 "would share the yolo label file");
}

TEST_F(PredictLabels, PicturesAsAsked) {
  expect_works(kAnyScore + "jpegs --picture-format jpg --line-width 1 --letter-size 0 " + image_);
  const std::string name = "jpegs/" + fs::path(image_).stem().string() + ".jpg";
  const Image drawn = read_image((scratch() / name).string());
  EXPECT_EQ(drawn.width, 64);
  EXPECT_EQ(text_of(name).substr(0, 2), "\xFF\xD8");
  // The folder is recognised as one of ours, so a second run replaces the picture, and a stranger's stays.
  expect_works(kAnyScore + "jpegs --picture-format jpg " + image_);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch() / "jpegs"), fs::directory_iterator()), 2);
  fs::copy_file(scratch() / image_, scratch() / name, fs::copy_options::overwrite_existing);
  expect_works(kAnyScore + "jpegs --picture-format jpg " + image_);
  EXPECT_EQ(text_of(name), text_of(image_));
  expect_works(kAnyScore + "crops_alone --no-pictures --crop --max 1 " + image_);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch() / "crops_alone/crops"), fs::directory_iterator()),
            1);
  // Letters and lines may be drawn differently.
  expect_works(kAnyScore + "usual " + image_);
  expect_works(kAnyScore + "no_letters --letter-size 0 " + image_);
  const std::string png = fs::path(image_).filename().string();
  EXPECT_NE(text_of("usual/" + png), text_of("no_letters/" + png));
}

TEST_F(PredictLabels, TheStandardInputAndAnotherSize) {
  Result r = run_script("\"$S\" " + kAnyScore + "from_stdin - <" + image_);
  EXPECT_EQ(r.status, 0) << r.err;
  const std::string found = text_of("from_stdin/detections.json");
  EXPECT_GT(count(found, "\"file_name\": \"stdin\""), 0);
  EXPECT_EQ(count(found, "\"file_name\": \"stdin\""), count(found, "\"score\""));
  expect_works(kAnyScore + "same_size --image-size 64 " + image_);
  expect_works(kAnyScore + "larger --image-size 96 " + image_);
  expect_works(kAnyScore + "by_set --set data.val_height=96 --set data.val_width=96 " + image_);
  EXPECT_EQ(text_of("larger/detections.json"), text_of("by_set/detections.json"));
  EXPECT_NE(text_of("larger/detections.json"), text_of("same_size/detections.json"));
}

TEST_F(PredictLabels, TheBestScoreIsSaidWhereNothingIsFound) {
  Result r = run("predict --threshold 1 --checkpoint " + kCheckpoint + " --output nothing " + image_);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("note: the best score is 0."), std::string::npos) << r.out;
}

}  // namespace
}  // namespace saccade
