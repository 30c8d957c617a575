// saccade data show: draws as pictures what the model receives in a training step.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "data/loading/bad_image_lines.h"
#include "train/commands/commands.h"
#include "train/config/options.h"
#include "train/config/recipes.h"
#include "train/config/task.h"
#include "train/inference/picture_files.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

// Image n of the batch, including padding.
Image image_of(const Batch& batch, int64_t n) {
  Image image(batch.images.dim(1), batch.images.dim(2));
  const Tensor pixels = batch.images.select(0, n);
  std::copy_n(pixels.data<uint8_t>(), image.rgb.size(), image.rgb.begin());
  return image;
}

Config shown_config(const DataShowArguments& arguments, std::vector<std::string>& notes) {
  const Config config = chosen_recipe(arguments.config, arguments.model, {arguments.data, arguments.classes},
                                      arguments.set, notes, arguments.quick);
  validate_for_training(config);
  return resolve_config(config);
}

}  // namespace

int run_data_show(const DataShowArguments& arguments) {
  if (arguments.batches > 0 && arguments.images > 0) fail_input("--images and --batches cannot be combined");
  std::vector<std::string> notes;
  const Config config = shown_config(arguments, notes);
  const Task& task = task_of(config);
  const auto set = open_dataset(*data_splits(config, &notes).train, label_scheme(config), &notes);
  if (arguments.quick.learning_rate)
    notes.emplace_back("note: --lr: changes nothing, the pictures do not depend on it");
  for (const std::string& note : notes) print_line(note);
  const int64_t batches_a_step = std::max<int64_t>(config.train().accumulate(), 1);
  LoaderOptions options = train_loader(config);
  options.prefetch = 0;
  options.start_batch = (arguments.step - 1) * batches_a_step;
  DataLoader loader(set, options);
  const MadeFolder folder(arguments.output);
  const int64_t most_batches = arguments.batches > 0 ? arguments.batches : 1;
  int64_t images = 0;
  BadImageLines skipped;
  for (int64_t k = 0; arguments.images > 0 ? images < arguments.images : k < most_batches; ++k) {
    const Batch batch = *loader.next();
    for (const std::string& image : batch.bad_images) print_line("{}", skipped.line(image));
    const int64_t step = arguments.step + k / batches_a_step;
    print_line("step {}, batch {} of epoch {}: {} of {} x {} pixels", step, batch.index, batch.epoch,
               count_of(std::ssize(batch.targets), "image", "images"), batch.images.dim(2),
               batch.images.dim(1));
    for (size_t n = 0; n < batch.targets.size(); ++n) {
      if (arguments.images > 0 && images == arguments.images) break;
      Image image = image_of(batch, static_cast<int64_t>(n));
      const std::string drawn = task.draw_target(image, batch, n, set->class_names());
      const std::string name = fmt::format("step{:06}_{:02}.png", step,
                                           static_cast<int64_t>(n) + k % batches_a_step * options.batch_size);
      const std::string path = (std::filesystem::path(arguments.output) / name).string();
      refuse_link(path);
      const bool replaces = is_old_file(path);
      write_png(image, path);
      if (replaces) print_line("{}: replaces an existing file", path);
      print_line("  {}: {}, {}", name, batch.targets[n].file_name, drawn);
      ++images;
    }
  }
  print_line("{}: {}", arguments.output, count_of(images, "picture", "pictures"));
  return 0;
}

}  // namespace saccade
