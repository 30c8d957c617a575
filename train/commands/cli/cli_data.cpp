// The commands of `saccade data`.
#include <fmt/ranges.h>

#include "data/formats/data_format.h"
#include "data/labels/label_forms.h"
#include "data/shapes/shapes_dataset.h"
#include "train/commands/cli/cli_options.h"
#include "train/commands/commands.h"

namespace saccade {

namespace {

// The flags that say where a data set is.
template <class Arguments>
void add_source(CLI::App* command, Arguments* a) {
  option(command, "--annotations", a->annotations, "FILE",
         "COCO json, data.yaml, CSV, or a folder of Pascal VOC");
  option(command, "--images", a->images, "DIR", "image folder");
  add_data(command, a->data, "data set folder with all its splits, as for train --data (repeatable)");
  add_classes(command, a->classes, "use only these classes");
  add_class_set(command, a->set);
}

void define_data_shapes(CLI::App* c, ShapesArguments* a) {
  required(c, "--output", a->output, "DIR", "folder for annotations.json, images/ and label_maps/");
  required(c, "--images", a->images, "N", "number of images")->check(at_least(1));
  required(c, "--seed", a->seed, "S", "random seed; another seed gives another data set")->check(at_least(0));
  option(c, "--size", a->size, "PIXELS", "side of the images in pixels")
      ->check(whole(kMinShapesSide, kMaxShapesSide));
  c->footer("Example:\n  saccade data shapes --output shapes/train --images 2000 --seed 1");
}

void define_data_check(CLI::App* c, CheckArguments* a) {
  add_source(c, a);
  option(c, "--fix", a->fix, "OUT",
         "write a copy without the faulty entries as COCO json; with --data, a folder for the json of each "
         "split")
      ->check(not_empty());
  c->add_flag(
      "--masks", a->masks,
      "for a model with masks: report objects without a mask; --fix makes them crowds, which training "
      "leaves out and metrics ignore");
  add_allow_outside(c, a->allow_outside);
  c->footer(
      "Examples:\n"
      "  saccade data check --annotations train.json --images train/\n"
      "  saccade data check --data my_images --fix fixed");
}

void define_data_report(CLI::App* c, DataReportArguments* a) {
  add_source(c, a);
  required(c, "--output", a->output, "FILE", "the page, a single HTML file");
  option(c, "--look-at", a->look_at, "N", "read at most N images (default 20000)")->check(at_least(1));
  add_allow_outside(c, a->allow_outside);
  c->footer("Example:\n  saccade data report --data my_images --output data.html");
}

void define_data_show(CLI::App* c, DataShowArguments* a) {
  option(c, "--config", a->config, "FILE",
         "recipe file, a textproto (see configs/), or RUN/config.textproto");
  option(c, "--model", a->model, "NAME", "a built-in recipe by name, fitted to --data as by train");
  required(c, "--output", a->output, "DIR", "folder for the pictures");
  add_data(c, a->data, "data set folder that replaces the recipe's, as for train --data (repeatable)");
  add_classes(c, a->classes, "use only these classes, as for train --classes");
  add_set(c, a->set);
  add_quick_flags(c, a->quick);
  option(c, "--batches", a->batches, "N", "number of batches (default 1)")->check(at_least(1));
  option(c, "--images", a->images, "N", "number of images, instead of whole batches")->check(at_least(1));
  option(c, "--step", a->step, "K", "begin with the batch of training step K (default 1)")
      ->check(whole(1, 1'000'000'000));
  c->footer(
      "Examples:\n"
      "  saccade data show --data my_images --model rt_detr_r18 --output seen\n"
      "  saccade data show --config configs/bccd.textproto --output seen\n"
      "  saccade data show --config configs/bccd.textproto --set data.augment.mosaic=1 --output seen "
      "--images 20");
}

void define_data_convert(CLI::App* c, DataConvertArguments* a) {
  positional(c, "IN", a->input, "data set folder, as for train --data, or an annotation file with --images");
  positional(
      c, "OUT_DIR", a->output,
      "folder for train.json, val.json, test.json, or annotations.json; for other formats a new folder");
  option(c, "--images", a->images, "DIR", "image folder of the file IN");
  add_data(c, a->data, "further data set folders to combine with IN");
  add_classes(c, a->classes, "use only these classes");
  add_class_set(c, a->set);
  option(c, "--from", a->from, "FORMAT",
         fmt::format("format of IN: {} (default: detected from the file names)",
                     fmt::join(formats_with({.boxes = true}), ", "))
             .c_str());
  option(c, "--to", a->to, "FORMAT",
         fmt::format("format to write: {} (default: coco), or label_maps", fmt::join(readable_forms(), ", "))
             .c_str());
  option(c, "--rename", a->rename, "NAME=AS",
         "rename a class, or merge it with an existing class (repeatable)")
      ->expected(1)
      ->take_all();
  option(c, "--drop", a->drop, "NAME,...", "remove these classes; their images stay")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(not_empty());
  c->add_flag("--drop-empty", a->drop_empty, "remove images without boxes of the classes that are kept");
  option(c, "--split", a->shares, "FRACTION,...",
         "split all images anew into training, validation and test sets, for example 0.8,0.2 or 0.7,0.2,0.1")
      ->delimiter(',')
      ->allow_extra_args(false);
  option(c, "--most", a->most, "N", "keep at most N images of each split, drawn at random")
      ->check(at_least(1));
  option(c, "--seed", a->seed, "S", "random seed of --split and --most (default 0)")->check(at_least(0));
  add_allow_outside(c, a->allow_outside);
  c->footer(
      "Examples:\n"
      "  saccade data convert my_images coco\n"
      "  saccade data convert boxes.csv coco --from csv --images photos\n"
      "  saccade data convert my_images all --data more_images --classes car,truck\n"
      "  saccade data convert my_images yolo --to yolo --split 0.8,0.2 --rename lorry=truck --drop ignore");
}

}  // namespace

void add_data_commands(CLI::App& app, Action& action) {
  CLI::App* c = app.add_subcommand("data", "create, check, inspect or convert a data set");
  c->require_subcommand(1);
  add_command(*c, action, "shapes",
              "draw a synthetic data set with boxes and masks as COCO json, and label maps", run_data_shapes,
              define_data_shapes);
  add_command(*c, action, "check", "report every faulty annotation and image of a data set", run_data_check,
              define_data_check);
  add_command(*c, action, "report", "write an HTML page that describes a data set and shows what looks odd",
              run_data_report, define_data_report);
  add_command(*c, action, "show", "draw the batches that training sees, after every augmentation",
              run_data_show, define_data_show);
  add_command(*c, action, "convert", "convert the annotations of a data set to another format",
              run_data_convert, define_data_convert);
}

}  // namespace saccade
