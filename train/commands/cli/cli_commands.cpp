#include "train/commands/cli/cli_commands.h"

#include <fmt/ranges.h>

#include "core/runtime/cpu/thread_team.h"
#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/labels/label_forms.h"
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

namespace {

// To every command below `app`.
void add_threads(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    if (!command->get_subcommands({}).empty()) {
      add_threads(*command);
      continue;
    }
    command
        ->add_option_function<int>(
            "--threads", set_thread_count,
            "threads to compute with (default: OMP_NUM_THREADS, or as many as there are "
            "processors for this process)")
        ->type_name("N")
        ->check(number<int>(fmt::format("a whole number from 1 to {}", max_threads()),
                            [](int count) { return count >= 1 && count <= max_threads(); }));
  }
}

// Of commands that read other people's weights.
void add_key(CLI::App* c, std::string& key) {
  option(c, "--key", key, "NAME",
         "the entry of a .pth file that holds the tensors, as ema.module (default: found)");
}

void add_train(CLI::App& app, Action& action) {
  auto [c, a] = add_command(app, action, "train", "train a detector or a classifier", run_train);
  option(c, "--config", a->config, "FILE",
         "the recipe, a textproto (see configs/); with --resume by default the run's own");
  option(c, "--model", a->model, "NAME",
         "or a recipe by its name, fitted to --data (saccade describe models lists them)");
  option(c, "--output", a->output, "DIR",
         "folder of the run: config, metrics, checkpoints (default: a new one, runs/NAME-1, -2, ...)");
  add_data(
      c, a->data,
      "in place of the recipe's data: a folder as COCO, YOLO, Pascal VOC, CVAT, LabelMe or CSV, or of class folders; several, each "
      "with its own --data, are united by the names of their classes");
  add_classes(c, a->classes,
              "train only these classes of the data; images stay, without the objects of others");
  add_set(c, a->set);
  add_quick_flags(c, a->quick);
  c->add_flag("--resume", a->resume, "continue the run in --output from its newest whole checkpoint");
  option(c, "--init-from", a->init_from, "FILE", "start from the weights of a safetensors or .pth file");
  add_key(c, a->key);
  c->add_flag("--reinit-heads", a->reinit_heads, "with --init-from: new class heads, for other classes");
  c->add_flag(
      "--official-recipe", a->official_recipe,
      "with --model and --init-from: as the recipe was published, not fitted to fine-tuning on few images");
  option(c, "--freeze", a->freeze, "REGEX",
         "do not train the parameters whose names it is found in (repeatable)")
      ->expected(1)
      ->take_all();
  option(
      c, "--overfit", a->overfit, "N",
      "a check: train 1000 steps on N images without augmentation and evaluate on the same, whose AP comes near 1")
      ->check(at_least(1));
  c->add_flag("--quiet", a->quiet, "print nothing but errors");
  add_device(c, a->device);
  option(
      c, "--trial-batch", a->trial_batch, "NAME",
      "try a step of the largest batch before the first, for its memory and time: on, off or auto, the default: on a "
      "GPU, and on a CPU in runs of 500 batches or more")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  option(c, "--max-steps", a->max_steps, "N", "stop after this many optimizer steps; --resume goes on")
      ->check(at_least(1));
  option(
      c, "--processes", a->processes, "N",
      "train with N processes on this machine, which share every batch: one a GPU, or CPU processes over Open MPI")
      ->check(CLI::Range(1, 1024));
  option(c, "--rank", a->ranks.rank, "N",
         "which of several processes this is (default: as mpirun, srun or torchrun say)")
      ->check(CLI::Range(0, 65535));
  option(c, "--ranks", a->ranks.size, "N", "how many there are")->check(CLI::Range(1, 65536));
  option(c, "--local-rank", a->ranks.local_rank, "N", "which of those of this machine (default: --rank)")
      ->check(CLI::Range(0, 65535));
  option(c, "--master", a->ranks.master, "HOST:PORT", "where rank 0 listens, for processes on GPUs");
  c->footer(
      "Examples:\n"
      "  saccade train --data my_images --model rt_detr_r18 --init-from weights.safetensors\n"
      "  saccade train --data my_images --model rt_detr_r18 --epochs 30 --batch 4 --image-size 512 --lr 5e-5\n"
      "  saccade train --config configs/quickstart.textproto --output runs/quickstart\n"
      "  saccade train --config configs/bccd.textproto --output runs/a --set data.batch_size=4 --set seed=7\n"
      "  saccade train --config configs/bccd.textproto --data my_images --output runs/mine\n"
      "  saccade train --data my_images --data more_images --classes car,truck --model rt_detr_r18\n"
      "  saccade train --config configs/bccd.textproto --output runs/a --resume\n"
      "  saccade train --output runs/a --resume --set train.epochs=100\n"
      "  saccade train --config configs/bccd.textproto --output runs/a --processes 2\n"
      "  mpirun -n 4 saccade train --config configs/bccd.textproto --output runs/a");
}

void add_data_split(CLI::App* c, std::vector<std::string>& data, std::string& split) {
  add_data(c, data, "or a folder as train --data takes it; several are united");
  option(c, "--split", split, "NAME", "with --data: train, val or test (default val)")
      ->check(CLI::IsMember({"train", "val", "test"}))
      ->needs("--data");
}

void add_per_class(CLI::App* c, bool& per_class) {
  c->add_flag("--per-class", per_class,
              "print the figures of each class of a detector too (--json always has them)");
}

// Of what the figures of a detector are.
void add_figures(CLI::App* c, FigureOptions& figures) {
  c->add_option_function<std::string>(
       "--iou",
       [&figures](const std::string& type) {
         figures.iou = type == "segm" ? IouType::kMasks : IouType::kBoxes;
       },
       "what overlaps, as pycocotools' iouType: boxes (bbox) or masks (segm); default bbox, and both of a model that predicts "
       "masks")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bbox", "segm"}));
  option(
      c, "--max-detections", figures.max_detections, "N",
      "so many detections of an image and class count, at least 11 (AR_10 is always there); pycocotools counts 100")
      ->check(number<int64_t>("a whole number from 11 to 1000000",
                              [](int64_t n) { return n >= 11 && n <= 1'000'000; }));
  c->add_option_function<std::string>(
       "--area-ranges",
       [&figures](const std::string& text) {
         try {
           figures.areas = parse_area_ranges(text);
         } catch (const InputError& error) {
           throw CLI::ValidationError("--area-ranges", error.what());
         }
       },
       "sizes of objects that have figures of their own, by their areas in pixels (default "
       "small:0-1024,medium:1024-9216,large:9216-)")
      ->type_name("NAME:LOW-HIGH,...");
}

void add_eval(CLI::App& app, Action& action) {
  auto [c, a] =
      add_command(app, action, "eval", "run a checkpoint over a data set and print its figures", run_eval);
  required(c, "--checkpoint", a->checkpoint, "FILE", "a checkpoint that train wrote");
  option(c, "--annotations", a->annotations, "FILE",
         "of a detector: COCO json, data.yaml, CSV, or a folder of Pascal VOC");
  option(c, "--images", a->images, "DIR",
         "folder of the images; of a classifier: with a sub-folder for each class");
  add_data_split(c, a->data, a->split);
  option(c, "--detections", a->detections, "FILE", "write the detections here (COCO result list)");
  add_json(c, a->json);
  add_classes(c, a->classes, "figures and detections of these classes only");
  add_per_class(c, a->per_class);
  add_figures(c, a->figures);
  add_batch_size(c, a->batch_size, "images at a time");
  add_image_size(c, a->image_size,
                 "side of the images as train --image-size takes it (default: as in training)");
  add_allow_outside(c, a->allow_outside);
  add_device(c, a->device);
  add_precision(c, a->precision);
  add_inference_set(c, a->set);
  c->footer(
      "Examples:\n"
      "  saccade eval --checkpoint runs/a/checkpoints/best.safetensors --annotations val.json --images val/\n"
      "  saccade eval --checkpoint best.safetensors --data my_images --set eval.nms=0.9\n"
      "  saccade eval --checkpoint classifier.safetensors --images val/ --json figures.json");
}

void add_score(CLI::App& app, Action& action) {
  auto [c, a] = add_command(app, action, "score", "COCO figures of a detection file", run_score);
  option(c, "--annotations", a->annotations, "FILE", "COCO json, data.yaml, CSV, or a folder of Pascal VOC");
  option(c, "--images", a->images, "DIR", "folder of the images, where a format needs it (YOLO)");
  add_data_split(c, a->data, a->split);
  required(
      c, "--detections", a->detections, "FILE",
      "COCO result list, or dictionary with scores; images and categories that it names are found by their names");
  option(c, "--checkpoint", a->checkpoint, "FILE", "the annotations are of the classes of this one");
  add_json(c, a->json);
  add_classes(c, a->classes, "figures of these classes only, as pycocotools' catIds");
  add_class_set(c, a->set);
  add_per_class(c, a->per_class);
  add_figures(c, a->figures);
  option(c, "--evaluator", a->evaluator, "NAME",
         fmt::format("what computes them: {} (default coco)", fmt::join(detection_evaluators().names(), ", "))
             .c_str());
  c->footer(
      "Examples:\n"
      "  saccade score --annotations val.json --detections detections.json --json figures.json\n"
      "  saccade score --data my_images --split test --detections detections.json");
}

void add_bench(CLI::App& app, Action& action) {
  auto [c, a] =
      add_command(app, action, "bench", "time a checkpoint's inference on random images", run_bench);
  c->add_option("CKPT", a->checkpoint, "a checkpoint that train or convert wrote")
      ->required()
      ->check(not_empty());
  add_batch_size(c, a->batch_size, "images at a time (default 1)");
  option(c, "--height", a->height, "H", "of the images (default: the recipe's)")->check(at_least(1));
  option(c, "--width", a->width, "W", "of the images (default: the recipe's)")->check(at_least(1));
  option(c, "--seconds", a->seconds, "T", "how long to measure (default 5)")
      ->check(
          number<double>("a number of seconds from 0 to 3600", [](double t) { return t >= 0 && t <= 3600; }));
  add_json(c, a->json);
  add_device(c, a->device);
  add_precision(c, a->precision);
  c->footer("Example:\n  saccade bench runs/a/checkpoints/best.safetensors --batch-size 8 --json bench.json");
}

void add_export(CLI::App& app, Action& action) {
  static constexpr int64_t kMaxBatch = 1024;
  auto [c, a] = add_command(app, action, "export", "write a checkpoint as an ONNX file", run_export);
  c->add_option("CKPT", a->checkpoint, "a checkpoint; or a recipe (*.textproto), for random weights")
      ->required()
      ->check(not_empty());
  c->add_option("OUT", a->output, "the file to write (*.onnx)")->required()->check(not_empty());
  option(c, "--height", a->height, "H", "of the images (default: the recipe's)")->check(at_least(1));
  option(c, "--width", a->width, "W", "of the images (default: the recipe's)")->check(at_least(1));
  add_image_size(c, a->image_size, "or: side of the images as train --image-size takes it");
  c->add_option_function<std::string>(
       "--batch",
       [batch = &a->batch](const std::string& text) {
         if (text == "dynamic")
           *batch = 0;
         else if (!parse_number(text, *batch) || *batch < 1 || *batch > kMaxBatch)
           throw CLI::ValidationError(
               "--batch", fmt::format("\"{}\" does not fit, expected dynamic or a number from 1 to {}", text,
                                      kMaxBatch));
       },
       "images at a time, or dynamic (default 1)")
      ->type_name("N");
  option(
      c, "--input", a->input, "FORM",
      "what the images are: normalized (default) or unit (from 0 to 1), both f32 [N, 3, H, W], or bytes (u8 [N, H, W, 3])")
      ->check(CLI::IsMember({"normalized", "unit", "bytes"}));
  c->add_flag(
      "--postprocess", a->postprocess,
      "outputs labels, boxes in pixels and scores (of a classifier labels and scores), not logits and boxes");
  c->add_flag("--raw-outputs", a->raw_outputs, "with --postprocess: logits and raw_boxes too");
  option(
      c, "--sample", a->sample, "FILE",
      "write 8 images of noise, and the model's outputs for them, as safetensors: to check other programs");
  add_set(c, a->set, "change a config field, of a recipe any: path.to.field=value (repeatable)");
  c->footer(
      "Example:\n  saccade export runs/a/checkpoints/best.safetensors model.onnx --input bytes --postprocess");
}

void add_summary(CLI::App& app, Action& action) {
  auto [c, a] =
      add_command(app, action, "summary", "parameters, MACs and activation memory of a model", run_summary);
  option(c, "--config", a->config, "FILE", "the recipe, a textproto");
  option(c, "--model", a->model, "NAME", "or a recipe by its name (saccade describe models lists them)");
  add_set(c, a->set);
  option(c, "--height", a->height, "H", "of the image (default: the recipe's)")->check(at_least(1));
  option(c, "--width", a->width, "W", "of the image (default: the recipe's)")->check(at_least(1));
  option(c, "--json", a->json, "FILE", "write the totals here");
  c->footer(
      "Examples:\n"
      "  saccade summary --model rt_detr_r18 --set model.num_classes=3\n"
      "  saccade summary --config configs/deformable_detr_r50.textproto --height 800 --width 1066");
}

void add_report(CLI::App& app, Action& action) {
  auto [c, a] =
      add_command(app, action, "report",
                  "the curves of a run and how good its best checkpoint is, as an HTML page", run_report);
  c->add_option("RUN", a->run, "the folder of the run")->required()->check(not_empty());
  c->add_option("MORE", a->others, "further runs: the page compares their curves and configurations")
      ->check(not_empty());
  option(c, "--output", a->output, "FILE",
         "the page (default RUN/report.html, or of several runs comparison.html)");
  add_json(c, a->json);
  option(c, "--csv", a->csv, "FILE", "write what was logged, a line for each step and evaluation");
  option(c, "--threshold", a->threshold, "T",
         "smallest score of a detection that counts in the confusion matrix (default: the best F1's)")
      ->check(between_0_and_1());
  option(c, "--checkpoint", a->checkpoint, "FILE", "evaluate this one (default: the run's best)");
  option(c, "--detections", a->detections, "FILE",
         "in place of evaluating: detections in the validation set, as score takes them");
  option(c, "--annotations", a->annotations, "FILE", "of the validation set, where it has moved");
  option(c, "--images", a->images, "DIR", "folder of its images, where they have moved");
  add_data_split(c, a->data, a->split);
  add_classes(c, a->classes, "the evaluation is of these classes only");
  add_class_set(c, a->set);
  add_figures(c, a->figures);
  option(c, "--label-errors", a->label_errors.folder, "DIR",
         "write the labels that the model contradicts: a list, and corrected labels to look at");
  option(c, "--to", a->label_errors.form, "FORMAT",
         fmt::format("of these labels: {} (default coco)", fmt::join(label_forms().names(), ", ")).c_str())
      ->check(CLI::IsMember(label_forms().names()));
  option(c, "--suspicion", a->label_errors.least_suspicion, "T",
         "smallest suspicion of a label error that is told (default 0.5)")
      ->check(between_0_and_1());
  c->add_flag("--curves-only", a->curves_only, "only what the run has logged: nothing is evaluated");
  add_batch_size(c, a->batch_size, "images at a time");
  add_allow_outside(c, a->allow_outside);
  add_device(c, a->device);
  c->footer(
      "Examples:\n"
      "  saccade report runs/a\n"
      "  saccade report runs/a --output a.html --data /new/place/of/my_images\n"
      "  saccade report runs/a --label-errors relabel --to labelstudio\n"
      "  saccade report runs/a runs/b runs/c --output compared.html --csv curves.csv");
}

void add_convert(CLI::App& app, Action& action) {
  auto [c, a] = add_command(app, action, "convert", "turn weights of others into a checkpoint", run_convert);
  c->add_option("IN", a->input, "safetensors (or its *.index.json), or a .pth file of PyTorch")
      ->required()
      ->check(not_empty());
  c->add_option("OUT", a->output, "the file to write, named *.safetensors")->required()->check(not_empty());
  option(c, "--config", a->config, "FILE", "the model, where the weights do not tell it");
  add_set(c, a->set);
  option(c, "--annotations", a->annotations, "FILE", "COCO json that names the classes");
  add_key(c, a->key);
  c->footer(
      "Examples:\n"
      "  saccade convert detr-r50-e632da11.pth detr.safetensors\n"
      "  saccade convert model.safetensors dc5.safetensors --set model.backbone.dilation=true\n"
      "  saccade convert resnet50.pth resnet50.safetensors");
}

void add_describe(CLI::App& app, Action& action) {
  auto [c, a] =
      add_command(app, action, "describe",
                  "a layer (arguments, shapes, cost), a recipe, or the fields of a config", run_describe);
  c->add_option("LAYER", a->layer,
                "its name in a config, or that of a recipe; without one, the known layers are listed; "
                "\"models\": the recipes; \"config\": every field of a config")
      ->check(not_empty());
  c->footer("Examples:\n  saccade describe ms_deform_attn\n  saccade describe rt_detr_r18");
}

void add_completion(CLI::App& app, Action& action) {
  auto [c, a] =
      add_command(app, action, "completion", "print the completion script of a shell", run_completion);
  c->add_option("SHELL", a->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  c->footer(
      "Examples:\n"
      "  source <(saccade completion bash)\n"
      "  saccade completion fish > ~/.config/fish/completions/saccade.fish");
}

}  // namespace

void add_commands(CLI::App& app, Action& action) {
  add_train(app, action);
  add_eval(app, action);
  add_score(app, action);
  add_predict_command(app, action);
  add_report(app, action);
  add_bench(app, action);
  add_export(app, action);
  add_summary(app, action);
  add_data_commands(app, action);
  add_convert(app, action);
  add_describe(app, action);
  add_completion(app, action);
  add_threads(app);
}

}  // namespace saccade
