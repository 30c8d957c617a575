// Tests what is said about the data before a training, and how the options of the data change its batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "data/images/image.h"
#include "data/loading/loader.h"
#include "tests/run_command.h"
#include "tests/test_folder.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/loop/training_task.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Oddities of the data are reported before the first step.
TEST(TrainingNotes, SayWhatIsOddAboutTheData) {
  TestFolder dir;
  fs::copy_file(SACCADE_SOURCE_DIR "/tests/golden/images/turned6.jpg", dir / "turned.jpg");
  write_png(Image(40, 60), dir / "plain.png");
  const ImageSize shown = image_size(dir / "turned.jpg");
  auto list = [&](int64_t width, int64_t height, const std::string& boxes) {
    return fmt::format(R"({{"images": [{{"id": 1, "file_name": "turned.jpg", "width": {}, "height": {}}},
      {{"id": 2, "file_name": "plain.png", "width": 60, "height": 40}}], "annotations": [{}],
      "categories": [{{"id": 1, "name": "a"}}, {{"id": 2, "name": "b"}}]}})",
                       width, height, boxes);
  };
  auto box = [](int id, int category, int crowd) {
    return fmt::format(
        R"({{"id": {}, "image_id": 2, "category_id": {}, "bbox": [1, 1, 9, 9], "area": 81, "iscrowd": {}}})",
        id, category, crowd);
  };
  const std::string both = box(1, 1, 0) + "," + box(2, 2, 0);
  struct Case {
    std::string list, note;  // "": none
  };
  for (const Case& c :
       {Case{list(shown.width, shown.height, both), ""},
        {list(shown.height, shown.width, both),
         "1 image is rotated by an EXIF orientation but listed with the size"},
        {list(shown.width, shown.height, ""), "no image has an annotation"},
        {list(shown.width, shown.height, box(1, 1, 1) + "," + box(2, 2, 1)), "all annotations are crowds"},
        {list(shown.width, shown.height, box(1, 1, 0)), "1 of 2 categories has no annotation: 2 (\"b\")"},
        {list(shown.width, shown.height, both + "," + box(3, 1, 0)),
         "image 2 of " + dir / "list.json" + " has 3 objects, but the model finds at most 2"}}) {
    write_bytes(dir / "list.json", c.list);
    Config config = parse_config(
        "model { backbone { blocks: [1, 1, 1, 1] width: 8 outputs: [4] } transformer { hidden_dim: 16 heads: 2 "
        "encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 2 levels: 1 } } data { batch_size: 1 }",
        "test");
    apply_set(config,
              "data.train={annotations: \"" + dir / "list.json" + "\" images: \"" + dir.path() + "\"}");
    std::string notes;
    for (const std::string& note : task_of(config).training(resolve_config(config))->describe_data())
      notes += note + "\n";
    EXPECT_EQ(c.note.empty(), notes.empty()) << notes;
    EXPECT_NE(notes.find(c.note), std::string::npos) << c.note << " not in " << notes;
  }
}

// Each option of the data changes the batches as it says, and nothing else.
TEST(DataOptions, DoWhatTheySay) {
  TestFolder dir;
  ASSERT_EQ(run_command({"data", "shapes", "--output", dir / "set", "--images", "16", "--seed", "2"}), 0);
  const Config plain = parse_config(
      "data { batch_size: 2 workers: 1 val_fraction: 0 augment { height: 64 width: 64 horizontal_flip: 0 } }",
      "test");
  auto batches = [&](const std::string& sets, int64_t first_epoch = 0) {
    Config config = plain;
    use_data(config, {.folders = {dir / "set"}});
    for (size_t begin = 0; begin < sets.size();) {
      const size_t end = std::min(sets.find(';', begin), sets.size());
      apply_set(config, sets.substr(begin, end - begin));
      begin = end + 1;
    }
    config = resolve_config(config);
    std::vector<std::string> notes;
    LoaderOptions options = train_loader(config);
    options.epochs = first_epoch + 1;
    options.start_epoch = first_epoch;
    DataLoader loader(open_dataset(*data_splits(config, &notes).train, label_scheme(config), &notes),
                      options);
    std::vector<Batch> out;
    while (std::optional<Batch> batch = loader.next()) out.push_back(std::move(*batch));
    return out;
  };
  using Batches = std::vector<Batch>;
  auto pixels = [](const Batches& all) {
    std::vector<uint8_t> out;
    for (const Batch& b : all) {
      const std::vector<uint8_t> more = b.images.to_vector<uint8_t>();
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  };
  auto objects = [](const Batches& all) {
    size_t count = 0;
    for (const Batch& b : all)
      for (const Target& t : b.targets) count += t.instances.size();
    return count;
  };
  auto different_images = [](const Batches& all) {
    std::set<int64_t> ids;
    for (const Batch& b : all)
      for (const Target& t : b.targets) ids.insert(t.image_id);
    return ids.size();
  };
  auto sides = [](const Batches& all) {
    std::set<std::pair<int64_t, int64_t>> sizes;
    for (const Batch& b : all) sizes.emplace(b.images.dim(1), b.images.dim(2));
    return sizes;
  };
  auto spread = [](const Batches& all) {  // of the lengths of boxes
    std::vector<double> widths;
    for (const Batch& b : all)
      for (const Target& t : b.targets)
        for (const Instance& i : t.instances)
          widths.push_back(i.box.width() / static_cast<double>(t.frame.width));
    const auto [least, most] = std::ranges::minmax_element(widths);
    return *most / *least;
  };
  auto mixed_shapes = [](const Batches& all) {  // batches of upright and lying images
    return std::ranges::count_if(all, [](const Batch& b) {
      auto is_upright = [](const Target& t) { return t.original_height > t.original_width; };
      return is_upright(b.targets[0]) != is_upright(b.targets[1]);
    });
  };
  const Batches usual = batches("");
  ASSERT_EQ(usual.size(), 8u);
  ASSERT_EQ(different_images(usual), 16u);
  using Sizes = std::set<std::pair<int64_t, int64_t>>;
  struct Case {
    std::string sets;
    std::function<bool(const Batches&)> holds;
  };
  const std::vector<Case> cases{
      {"data.workers=3", [&](const Batches& b) { return pixels(b) == pixels(usual); }},
      {"data.cache_mb=8", [&](const Batches& b) { return pixels(b) == pixels(usual); }},
      {"seed=7",
       [&](const Batches& b) { return pixels(b) != pixels(usual) && objects(b) == objects(usual); }},
      {"data.batch_size=5", [](const Batches& b) { return b.size() == 3; }},
      {"data.batch_size=5;data.drop_last=false", [](const Batches& b) { return b.size() == 4; }},
      {"data.sampling=repeat_factor;data.repeat_threshold=1",
       [&](const Batches& b) { return b.size() == 8 && different_images(b) < 16; }},
      {"data.sampling=class_balanced",
       [&](const Batches& b) { return b.size() == 8 && different_images(b) < 16; }},
      {"data.group_by_shape=true",
       [&](const Batches& b) {
         return mixed_shapes(b) <= 1 && mixed_shapes(usual) > 1 && objects(b) == objects(usual);
       }},
      {"data.augment.width=96",
       [&](const Batches& b) {
         return sides(b) == Sizes{{64, 96}};
       }},
      {"data.augment.multi_scale_heights=32,96",
       [&](const Batches& b) {
         return sides(b) == Sizes{{32, 32}, {96, 96}} && objects(b) == objects(usual);
       }},
      {"data.augment.scale_min=0.1;data.augment.scale_max=2",  // large-scale jitter
       [&](const Batches& b) {
         return spread(b) > 2 * spread(usual) && sides(b) == Sizes{{64, 64}};
       }},
      {"data.augment.mosaic=1", [&](const Batches& b) { return objects(b) > 2 * objects(usual); }},
      {"data.augment.batch_mixup=1", [&](const Batches& b) { return objects(b) == 2 * objects(usual); }},
      {"data.overfit=2;data.augment.mosaic=1;data.batch_size=2;data.val_height=64;data.val_width=64",
       [&](const Batches& b) { return b.size() == 1 && different_images(b) == 2; }},
  };
  for (const Case& c : cases) EXPECT_TRUE(c.holds(batches(c.sets))) << c.sets;
  // From the epoch of `close` on, nothing of it is left.
  for (const char* close : {"data.augment.mosaic_stop_epoch=1", "data.augment.strong_stop_epoch=1"}) {
    const std::string sets = std::string("data.augment.mosaic=1;data.augment.batch_mixup=1;") + close;
    EXPECT_NE(pixels(batches(sets, 0)), pixels(batches("", 0))) << close;
    EXPECT_EQ(pixels(batches(sets, 1)), pixels(batches("", 1))) << close;
  }
}

}  // namespace
}  // namespace saccade
