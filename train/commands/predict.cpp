// saccade predict: writes a checkpoint's predictions for images as a list and, of a detector, as pictures.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "core/files/output_file.h"
#include "core/files/text.h"
#include "core/runtime/cpu/thread_team.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "data/formats/checks/image_check.h"
#include "data/formats/coco/coco.h"
#include "data/labels/label_forms.h"
#include "train/checkpoints/load_model.h"
#include "train/commands/commands.h"
#include "train/commands/predict_video.h"
#include "train/config/options.h"
#include "train/config/recipes.h"
#include "train/config/task.h"
#include "train/inference/bounded_queue.h"
#include "train/inference/device_choice.h"
#include "train/inference/evaluation.h"
#include "train/inference/predictor.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"
#include "train/video/video.h"

namespace saccade {
namespace {

// Files of which only the first picture is used.
struct SeveralPictures {
  int64_t count = 0;
  std::string first;
};

// Reads the pictures on a thread of its own, a few in advance.
class PictureSource {
 public:
  struct Picture {
    std::optional<Image> image;
    bool has_more = false;
    std::string problem;  // for a bad file
    std::string damage;   // of a file that was read in spite of it
  };
  PictureSource(const std::vector<PredictInput>& inputs, size_t ahead)
      : inputs_(inputs), pictures_(ahead), thread_([this] { read(); }) {}
  ~PictureSource() { pictures_.close(); }
  // The picture of the next input.
  Picture next() { return pictures_.pop().value(); }

 private:
  void read() {
    try {
      for (const PredictInput& input : inputs_) {
        Picture picture;
        try {
          picture.image = read_image(input.path, &picture.has_more, &picture.damage);
        } catch (const InputError& error) {
          picture.problem = error.what();
        }
        if (!pictures_.push(std::move(picture))) return;
      }
    } catch (...) {
      pictures_.close(std::current_exception());
    }
  }

  const std::vector<PredictInput>& inputs_;
  BoundedQueue<Picture> pictures_;
  std::jthread thread_;  // declared last, so that it ends first
};

// Returns nothing if the file is bad, which it reports.
std::optional<Image> good_image(PictureSource::Picture picture, const std::string& path,
                                ProgressCounter& progress, SeveralPictures& several) {
  if (!picture.image) {
    progress.clear();
    print_error(picture.problem);
    return std::nullopt;
  }
  if (!picture.damage.empty()) progress.message(fmt::format("warning: {}: {}", path, picture.damage));
  if (picture.has_more && ++several.count == 1) several.first = path;
  return std::move(picture.image);
}

// Processes the images, this many at a time; pictures are moved to their place as they are made. The list
// grows in the workspace. Returns how many images were good.
size_t predict_all(const std::vector<PredictInput>& images, size_t batch_size, Predictor& predictor,
                   Workspace& workspace, PictureNames& names, OutputFile& list, SeveralPictures& several) {
  constexpr int kMaxWriters = 8;
  size_t done = 0;
  std::vector<LoadedInput> batch;
  ProgressCounter progress("predict", static_cast<int64_t>(images.size()), "images");
  PictureSource source(images, batch_size);
  PictureWriter writer(workspace, std::min(thread_count(), kMaxWriters));
  auto list_new = [&] {
    const std::string elements = predictor.take_list();
    list.write(elements.data(), elements.size());
  };
  for (const PredictInput& input : images) {
    if (std::optional<Image> image = good_image(source.next(), input.path, progress, several))
      batch.push_back({&input, std::move(*image)});
    else
      progress.add(1);
    if (batch.empty() || (batch.size() < batch_size && &input != &images.back())) continue;
    const size_t count = batch.size();
    predictor.predict(std::exchange(batch, {}), names, writer);
    list_new();
    done += count;
    progress.add(static_cast<int64_t>(count));
  }
  predictor.finish(names, writer);
  list_new();
  writer.end();
  if (done == 0)
    progress.clear();
  else
    progress.finish();
  return done;
}

std::string labels_folder(const PredictArguments& arguments) { return arguments.output + "/" + arguments.to; }

// Checks the flags before the long work.
void check_labels(const PredictArguments& arguments, const Predictor& predictor,
                  const std::vector<PredictInput>& images) {
  if (arguments.to.empty()) return;
  if (arguments.wants_labels() && !predictor.labels())
    fail_input("--to: {} finds no objects that could become labels, expected a detector",
               arguments.checkpoint);
  std::error_code error;
  if (std::filesystem::exists(labels_folder(arguments), error))
    fail_input("{}: already exists, expected another --output", labels_folder(arguments));
  if (!arguments.wants_labels()) return;
  GroundTruth names;
  for (const PredictInput& image : images) names.images.push_back({.file_name = image.name});
  if (label_forms().find(arguments.to).of_each_image) check_label_names(names, "", arguments.to);
}

// The folder appears together with its contents.
void write_labels(const PredictArguments& arguments, const Predictor& predictor, Workspace& workspace) {
  if (!arguments.wants_labels()) return;
  const LabelList list{.truth = *predictor.labels(), .description = kWrittenFrom + arguments.checkpoint};
  const LabelFiles files = label_forms().find(arguments.to).write({&list, 1});
  for (const LabelFiles::File& file : files.files)
    write_file(workspace.file(arguments.to + "/" + file.name), std::string_view(file.text));
  workspace.publish(arguments.to);
  for (const std::string& note : files.notes) print_line("note: {}: {}", labels_folder(arguments), note);
}

// If fewer objects are found than in an earlier run, its remaining crops would be taken for new ones.
void remove_earlier_crops(const std::string& output, const std::vector<PredictInput>& pictures,
                          const PictureNames& names) {
  int64_t removed = 0;
  for (const PredictInput& input : pictures) removed += names.remove_rest(crop_stem(input));
  if (removed > 0)
    print_line("{}/crops: removed {} of an earlier run", output, count_of(removed, "crop", "crops"));
}

}  // namespace

int run_predict(const PredictArguments& arguments) {
  if (!arguments.pictures)
    for (const auto& [flag, given] : arguments.flags_of_drawing())
      if (given) fail_input("{} and --no-pictures cannot be combined", flag);
  const DeviceChoice choice = choose_device(arguments.device);
  std::vector<std::string> paths = arguments.images;
  if (!arguments.list.empty())
    for (std::string& path : listed_paths(arguments.list)) paths.push_back(std::move(path));
  if (paths.empty())
    fail_input("saccade predict: no images, expected IMAGE or --list FILE (see saccade predict --help)");
  PredictInputs inputs = collect_inputs(paths, arguments.recursive);
  LoadedModel model = load_trained_model(arguments.checkpoint, choice.device, arguments.precision,
                                         arguments.set, arguments.image_size);
  for (const std::string& note : notes_without_data(arguments.set)) print_line(note);
  for (const std::string& note : model.notes) print_line(note);
  std::unique_ptr<Predictor> predictor = task_of(model.config).predictor(arguments, model);
  EvaluationMode mode(*model.module, precision_of(model.config));
  const std::string list = predictor->list_name();
  check_list(arguments.output, list);
  PictureNames names(arguments.output, inputs.images);
  check_video_flags(arguments, *predictor, inputs);
  check_labels(arguments, *predictor, inputs.images);
  if (predictor->has_pictures())
    for (PredictInput& input : inputs.images)
      input.picture = input.is_video ? names.name(video_stem(input.path), kVideoExtension)
                                     : names.name(std::filesystem::path(input.path).stem().string(),
                                                  "." + arguments.format);
  std::vector<PredictInput> pictures, videos;
  for (const PredictInput& input : inputs.images) (input.is_video ? videos : pictures).push_back(input);
  Workspace workspace(arguments.output);
  if (!choice.notice.empty()) print_line(choice.notice);
  for (const std::string& note : inputs.notes) print_line(note);
  for (const std::string& problem : inputs.problems) print_error(problem);
  workspace.withdraw_with_first(list);
  OutputFile elements(workspace.file(list));
  elements.write("[", 1);
  SeveralPictures several;
  size_t done = 0, done_videos = 0;
  std::optional<InterruptScope> signals;
  if (!videos.empty()) signals.emplace();  // a signal ends a video early, with a file that plays
  with_model_of(arguments.checkpoint, eval_size(model.config), "--set data.val_..., --batch-size", [&] {
    done = predict_all(pictures, static_cast<size_t>(arguments.batch_size), *predictor, workspace, names,
                       elements, several);
    done_videos = predict_videos(videos, arguments, *predictor, workspace, names, elements);
  });
  if (several.count > 0) print_line("note: {}", note_on_several_pictures(several.count, several.first));
  if (const std::string note = names.note(); done + done_videos > 0 && !note.empty()) print_line(note);
  const size_t bad = inputs.images.size() - done - done_videos;
  const int signal = interrupt_signal();
  // Bad inputs have been reported: the rest is done, and the exit status tells.
  const int status = signal != 0 ? 128 + signal : bad + inputs.problems.size() > 0 ? 2 : 0;
  if (signal != 0)
    print_line("stopped by {}: {}", signal_name(signal),
               done + done_videos > 0 ? "the results so far are complete" : "there are no results yet");
  if (done + done_videos == 0) return status;
  elements.write("\n]\n", 3);
  elements.commit();
  workspace.publish(list);
  write_labels(arguments, *predictor, workspace);
  if (arguments.crop) remove_earlier_crops(arguments.output, pictures, names);
  print_text(predictor->summary(done));
  if (bad > 0 && signal == 0)
    print_line("{} of {} files could not be read; the results of the others are in {}", bad,
               inputs.images.size(), arguments.output);
  return status;
}

}  // namespace saccade
