#include "train/commands/cli/cli_commands.h"

#include <fmt/ranges.h>

#include "core/tensor/error.h"
#include "data/evaluation/evaluators.h"
#include "data/labels/label_forms.h"
#include "train/commands/cli/cli_options.h"

namespace saccade {

namespace {

// For commands that read other projects' weights.
void add_key(CLI::App* c, std::string& key) {
  option(c, "--key", key, "NAME",
         "the entry of a .pth file that holds the tensors, for example ema.module (default: detected)");
}

void define_train(CLI::App* c, TrainArguments* a) {
  option(c, "--config", a->config, "FILE",
         "recipe file, a textproto (see configs/); with --resume the default is the run's own");
  option(c, "--model", a->model, "NAME",
         "a built-in recipe by name, fitted to --data (saccade describe models lists them)");
  option(c, "--output", a->output, "DIR",
         "run folder for config, metrics and checkpoints (default: a new one, runs/NAME-1, -2, ...)");
  add_data(
      c, a->data,
      "data set that replaces the recipe's: a folder in COCO, YOLO, Pascal VOC, CVAT, LabelMe or CSV form, "
      "or with one sub-folder per class; repeat the flag to combine several by class name");
  add_classes(c, a->classes, "train only these classes; images without them stay");
  add_set(c, a->set);
  add_quick_flags(c, a->quick);
  c->add_flag("--resume", a->resume, "continue the run in --output from its newest intact checkpoint");
  option(
      c, "--init-from", a->init_from, "FILE|NAME",
      "start from the weights in a safetensors or .pth file, or from published weights: a data set, such as "
      "coco, for those of --model, or a name that saccade weights list shows; downloaded unless they are in "
      "the cache")
      ->check(not_empty());
  add_key(c, a->key);
  c->add_flag("--reinit-heads", a->reinit_heads,
              "with --init-from: initialise the class heads anew, for other classes");
  c->add_flag(
      "--official-recipe", a->official_recipe,
      "with --model and --init-from: keep the published settings instead of fitting them to fine-tuning on "
      "few images");
  repeated(c, "--freeze", a->freeze, "REGEX", "do not train parameters whose names match (repeatable)");
  option(
      c, "--overfit", a->overfit, "N",
      "sanity check: train 1000 steps on N images without augmentation and evaluate on the same images; AP "
      "should approach 1")
      ->check(whole(1, 1'000'000));
  c->add_flag("--quiet", a->quiet, "print only errors");
  add_device(c, a->device);
  option(c, "--trial-batch", a->trial_batch, "NAME",
         "before training, try one step with the largest batch to measure its memory and time: on, off or "
         "auto (default; on a GPU, and on a CPU in runs of 500 batches or more)")
      ->check(one_of({"auto", "on", "off"}));
  option(c, "--max-steps", a->max_steps, "N", "stop after this many optimizer steps; --resume continues")
      ->check(at_least(1));
  option(c, "--processes", a->processes, "N",
         "train with N processes on this machine that share every batch: one per GPU, or CPU processes over "
         "Open MPI")
      ->check(whole(1, 1024));
  option(c, "--rank", a->ranks.rank, "N", "number of this process (default: from mpirun, srun or torchrun)")
      ->check(whole(0, 65535));
  option(c, "--ranks", a->ranks.size, "N", "number of processes")->check(whole(1, 65536));
  option(c, "--local-rank", a->ranks.local_rank, "N",
         "number of this process on this machine (default: --rank)")
      ->check(whole(0, 65535));
  option(c, "--master", a->ranks.master, "HOST:PORT",
         "address at which rank 0 listens, for processes on GPUs");
  c->footer(
      "Examples:\n"
      "  saccade train --data my_images --model rt_detr_r18 --init-from coco\n"
      "  saccade train --data my_images --model rt_detr_r18 --init-from weights.safetensors\n"
      "  saccade train --data my_images --model rt_detr_r18 --epochs 30 --batch 4 --image-size 512 --lr "
      "5e-5\n"
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
  add_data(c, data, "data set folder, as for train --data (repeatable)");
  option(c, "--split", split, "NAME", "split of --data: train, val or test (default val)")
      ->check(one_of({"train", "val", "test"}))
      ->needs("--data");
}

void add_per_class(CLI::App* c, bool& per_class) {
  c->add_flag("--per-class", per_class,
              "also print the metrics of each class of a detector (--json always has them)");
}

// What a detector's metrics count.
void add_metric_flags(CLI::App* c, MetricOptions& metric_options) {
  c->add_option_function<std::string>(
       "--iou",
       [&metric_options](const std::string& type) {
         metric_options.iou = type == "segm" ? IouType::kMasks : IouType::kBoxes;
       },
       "compare boxes (bbox) or masks (segm), like pycocotools' iouType (default: bbox, and both for a "
       "model that predicts masks)")
      ->type_name("NAME")
      ->check(one_of({"bbox", "segm"}));
  option(
      c, "--max-detections", metric_options.max_detections, "N",
      "largest number of detections per image and class that count, at least 11 (for AR_10; default 100, as "
      "in pycocotools)")
      ->check(whole(11, 1'000'000));
  c->add_option_function<std::string>(
       "--area-ranges",
       [&metric_options](const std::string& text) {
         try {
           metric_options.areas = parse_area_ranges(text);
         } catch (const InputError& error) {
           throw CLI::ValidationError("--area-ranges", error.what());
         }
       },
       "ranges of object area, in pixels, that get their own metrics (default "
       "small:0-1024,medium:1024-9216,large:9216-)")
      ->type_name("NAME:LOW-HIGH,...");
}

void define_eval(CLI::App* c, EvalArguments* a) {
  required(c, "--checkpoint", a->checkpoint, "FILE", "a checkpoint that train wrote");
  option(c, "--annotations", a->annotations, "FILE",
         "annotations for a detector: COCO json, data.yaml, CSV, or a folder of Pascal VOC");
  option(c, "--images", a->images, "DIR", "image folder; for a classifier, with one sub-folder per class");
  add_data_split(c, a->data, a->split);
  option(c, "--detections", a->detections, "FILE", "write the detections to this file (COCO result list)");
  add_json(c, a->json);
  add_classes(c, a->classes, "only metrics and detections of these classes");
  add_per_class(c, a->per_class);
  add_metric_flags(c, a->metric_options);
  add_batch_size(c, a->batch_size, "batch size");
  add_image_size(c, a->image_size, "image size, as for train --image-size (default: as in training)");
  add_allow_outside(c, a->allow_outside);
  add_device(c, a->device);
  add_precision(c, a->precision);
  add_inference_set(c, a->set);
  c->footer(
      "Examples:\n"
      "  saccade eval --checkpoint runs/a/checkpoints/best.safetensors --annotations val.json --images val/\n"
      "  saccade eval --checkpoint best.safetensors --data my_images --set eval.nms=0.9\n"
      "  saccade eval --checkpoint classifier.safetensors --images val/ --json metrics.json");
}

void define_score(CLI::App* c, ScoreArguments* a) {
  option(c, "--annotations", a->annotations, "FILE", "COCO json, data.yaml, CSV, or a folder of Pascal VOC");
  option(c, "--images", a->images, "DIR", "image folder, if the format needs it (YOLO)");
  add_data_split(c, a->data, a->split);
  required(
      c, "--detections", a->detections, "FILE",
      "COCO result list, or COCO dictionary whose annotations have scores; entries that name their image or "
      "category are matched by name");
  option(c, "--checkpoint", a->checkpoint, "FILE", "take the classes from this checkpoint");
  add_json(c, a->json);
  add_classes(c, a->classes, "only metrics of these classes, like pycocotools' catIds");
  add_class_set(c, a->set);
  add_per_class(c, a->per_class);
  add_metric_flags(c, a->metric_options);
  option(
      c, "--evaluator", a->evaluator, "NAME",
      fmt::format("evaluator: {} (default coco)", fmt::join(evaluators("detection").names(), ", ")).c_str());
  c->footer(
      "Examples:\n"
      "  saccade score --annotations val.json --detections detections.json --json metrics.json\n"
      "  saccade score --data my_images --split test --detections detections.json");
}

void define_bench(CLI::App* c, BenchArguments* a) {
  positional(c, "CKPT", a->checkpoint, "a checkpoint that train or convert wrote");
  add_batch_size(c, a->batch_size, "batch size (default 1)");
  option(c, "--height", a->height, "H", "image height (default: the recipe's)")->check(at_least(1));
  option(c, "--width", a->width, "W", "image width (default: the recipe's)")->check(at_least(1));
  option(c, "--seconds", a->seconds, "T", "how long to measure (default 5)")
      ->check(
          number<double>("a number of seconds from 0 to 3600", [](double t) { return t >= 0 && t <= 3600; }));
  add_json(c, a->json);
  add_device(c, a->device);
  add_precision(c, a->precision);
  c->footer("Example:\n  saccade bench runs/a/checkpoints/best.safetensors --batch-size 8 --json bench.json");
}

void define_export(CLI::App* c, ExportArguments* a) {
  static constexpr int64_t kMaxBatch = 1024;
  positional(c, "CKPT", a->checkpoint, "a checkpoint, or a recipe (*.textproto) for random weights");
  positional(c, "OUT", a->output, "the file to write (*.onnx)");
  option(c, "--height", a->height, "H", "image height (default: the recipe's)")->check(at_least(1));
  option(c, "--width", a->width, "W", "image width (default: the recipe's)")->check(at_least(1));
  add_image_size(c, a->image_size, "image size, as for train --image-size, instead of height and width");
  c->add_option_function<std::string>(
       "--batch",
       [batch = &a->batch](const std::string& text) {
         if (text == "dynamic")
           *batch = 0;
         else if (!parse_number(text, *batch) || *batch < 1 || *batch > kMaxBatch)
           throw CLI::ValidationError(
               "--batch", fmt::format("\"{}\" is not valid, expected dynamic or a whole number from 1 to {}",
                                      text, kMaxBatch));
       },
       "batch size, or dynamic (default 1)")
      ->type_name("N");
  option(c, "--input", a->input, "FORM",
         "format of the input images: normalized (default) or unit (from 0 to 1), both f32 [N, 3, H, W], or "
         "bytes (u8 [N, H, W, 3])")
      ->check(one_of({"normalized", "unit", "bytes"}));
  c->add_flag(
      "--postprocess", a->postprocess,
      "output results instead of raw outputs: for a detector, labels, scores, boxes in pixels and masks, if "
      "it predicts any; for a classifier, labels and scores; for a segmentation model, the label of each "
      "pixel");
  c->add_flag("--raw-outputs", a->raw_outputs,
              "with --postprocess: also output the raw outputs: logits, raw_boxes, raw_masks");
  option(c, "--sample", a->sample, "FILE",
         "write 8 noise images and the model's outputs for them as safetensors, to check other programs "
         "against");
  add_set(c, a->set, "change a config field (for a recipe, any field): path.to.field=value (repeatable)");
  c->footer(
      "Example:\n  saccade export runs/a/checkpoints/best.safetensors model.onnx --input bytes "
      "--postprocess");
}

void define_summary(CLI::App* c, SummaryArguments* a) {
  option(c, "--config", a->config, "FILE", "recipe file, a textproto");
  option(c, "--model", a->model, "NAME", "a built-in recipe by name (saccade describe models lists them)");
  add_set(c, a->set);
  option(c, "--height", a->height, "H", "image height (default: the recipe's)")->check(at_least(1));
  option(c, "--width", a->width, "W", "image width (default: the recipe's)")->check(at_least(1));
  option(c, "--json", a->json, "FILE", "write the totals to this file");
  c->footer(
      "Examples:\n"
      "  saccade summary --model rt_detr_r18 --set model.num_classes=3\n"
      "  saccade summary --config configs/deformable_detr_r50.textproto --height 800 --width 1066");
}

void define_report(CLI::App* c, ReportArguments* a) {
  positional(c, "RUN", a->run, "the folder of the run");
  positional(c, "MORE", a->others, "further runs to compare with it", false);
  option(c, "--output", a->output, "FILE",
         "the page (default RUN/report.html, or of several runs comparison.html)");
  add_json(c, a->json);
  option(c, "--csv", a->csv, "FILE", "write the logged metrics, one line per step or evaluation");
  option(c, "--threshold", a->threshold, "T",
         "lowest score that counts in the confusion matrix (default: the one with the best F1)")
      ->check(real(0, 1));
  option(c, "--checkpoint", a->checkpoint, "FILE", "checkpoint to evaluate (default: the run's best)");
  option(c, "--detections", a->detections, "FILE",
         "use these detections of the validation set, as for score, instead of evaluating");
  option(c, "--annotations", a->annotations, "FILE", "annotations of the validation set, if they have moved");
  option(c, "--images", a->images, "DIR", "image folder of the validation set, if it has moved");
  add_data_split(c, a->data, a->split);
  add_classes(c, a->classes, "evaluate only these classes");
  add_class_set(c, a->set);
  add_metric_flags(c, a->metric_options);
  option(c, "--label-errors", a->label_errors.folder, "DIR",
         "write the labels that the model contradicts: a list, and corrected labels to review");
  option(
      c, "--to", a->label_errors.form, "FORMAT",
      fmt::format("format of the corrected labels: {} (default coco)", fmt::join(label_forms().names(), ", "))
          .c_str())
      ->check(one_of(label_forms().names()))
      ->needs("--label-errors");
  option(c, "--suspicion", a->label_errors.least_suspicion, "T",
         "lowest suspicion of a label error that is reported (default 0.5)")
      ->check(real(0, 1));
  c->add_flag("--curves-only", a->curves_only, "show only what the run has logged, without an evaluation");
  add_batch_size(c, a->batch_size, "batch size");
  add_allow_outside(c, a->allow_outside);
  add_device(c, a->device);
  c->footer(
      "Examples:\n"
      "  saccade report runs/a\n"
      "  saccade report runs/a --output a.html --data /new/place/of/my_images\n"
      "  saccade report runs/a --label-errors relabel --to labelstudio\n"
      "  saccade report runs/a runs/b runs/c --output compared.html --csv curves.csv");
}

void define_convert(CLI::App* c, ConvertArguments* a) {
  positional(
      c, "IN", a->input,
      "a safetensors file (or its *.index.json), a PyTorch .pth file, or the name of published weights");
  positional(c, "OUT", a->output, "the file to write, named *.safetensors");
  option(c, "--config", a->config, "FILE", "recipe of the model, if the weights do not identify it");
  add_set(c, a->set);
  option(c, "--annotations", a->annotations, "FILE", "COCO json with the names of the classes");
  add_key(c, a->key);
  c->footer(
      "Examples:\n"
      "  saccade convert detr-r50-e632da11.pth detr.safetensors\n"
      "  saccade convert model.safetensors dc5.safetensors --set model.backbone.dilation=true\n"
      "  saccade convert resnet50.pth resnet50.safetensors");
}

void define_describe(CLI::App* c, DescribeArguments* a) {
  positional(c, "LAYER", a->layer,
             "name of a layer or a recipe; \"models\" lists the recipes, \"config\" every field of a config; "
             "without a name, the layers are listed",
             false);
  c->footer("Examples:\n  saccade describe ms_deform_attn\n  saccade describe rt_detr_r18");
}

void define_completion(CLI::App* c, CompletionArguments* a) {
  c->add_option("SHELL", a->shell, "bash, zsh or fish")->required()->check(one_of({"bash", "zsh", "fish"}));
  c->footer(
      "Examples:\n"
      "  source <(saccade completion bash)\n"
      "  saccade completion fish > ~/.config/fish/completions/saccade.fish");
}

}  // namespace

void add_commands(CLI::App& app, Action& action) {
  add_command(app, action, "train", "train a detector, a segmentation model or a classifier", run_train,
              define_train);
  add_command(app, action, "eval", "evaluate a checkpoint on a data set and print its metrics", run_eval,
              define_eval);
  add_command(app, action, "score", "compute COCO metrics of a detection file", run_score, define_score);
  add_command(app, action, "predict", "detect objects in images and videos and draw them, or classify images",
              run_predict, define_predict);
  add_command(app, action, "serve", "answer requests over HTTP with the objects or classes in their images",
              run_serve, define_serve);
  add_command(app, action, "report",
              "write an HTML page with the curves of a run and an evaluation of its best checkpoint",
              run_report, define_report);
  add_command(app, action, "bench", "measure a checkpoint's inference speed on random images", run_bench,
              define_bench);
  add_command(app, action, "export", "write a checkpoint as an ONNX file", run_export, define_export);
  add_command(app, action, "summary", "print parameters, MACs and activation memory of a model", run_summary,
              define_summary);
  add_data_commands(app, action);
  add_command(app, action, "convert", "convert published weights to a checkpoint", run_convert,
              define_convert);
  add_weights_commands(app, action);
  add_command(app, action, "describe",
              "describe a layer (arguments, shapes, cost), a recipe, or the fields of a config", run_describe,
              define_describe);
  add_command(app, action, "completion", "print the completion script for a shell", run_completion,
              define_completion);
}

}  // namespace saccade
