// The commands of the program: the arguments that each takes from the command line
// (train/commands/cli/cli.cpp) and the function that runs it. A command returns the exit status, or throws
// InputError (exit 2) or another exception (exit 1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/distributed/ranks.h"
#include "data/evaluation/metric_options.h"
#include "train/config/quick_flags.h"
#include "train/inference/arguments.h"

namespace saccade {

struct TrainArguments {
  std::string config, output, device = "auto";
  std::string init_from;             // a file, or the name of published weights
  std::string model;                 // instead of `config`: the name of a recipe, which is fitted to the data
  std::vector<std::string> data;     // folders of data sets, instead of the recipe's
  std::vector<std::string> classes;  // only these; if empty, the configuration's
  std::vector<std::string> set;
  QuickFlags quick;
  std::vector<std::string> freeze;  // regular expressions of the parameters that are not trained
  int64_t overfit = 0;              // train on only this many images, see data.overfit
  bool resume = false;
  bool quiet = false;  // prints nothing on stdout
  std::string trial_batch = "auto";
  bool reinit_heads = false;     // with init_from
  bool official_recipe = false;  // with init_from and model: the recipe is not adjusted for fine-tuning
  std::string key;               // the key of the dictionary in init_from, as for convert
  int64_t max_steps = 0;  // stops there, without changing the schedule; 0: where the configuration ends
  int64_t processes = 0;  // how many processes to start that train together; 0: this process trains
  RankFlags ranks;        // which of several ranks this process is
};
int run_train(const TrainArguments& arguments);
// Starts arguments.processes processes of this program on this machine and waits for them. SIGINT and SIGTERM
// end the run after its current step, with everything saved. (launch.cpp)
int launch_processes(const TrainArguments& arguments);
// Called in a launched process: throws InputError if the number of ranks is not the one that was asked for.
void check_launched(int ranks);
// Returns the signal that stopped the launcher, if it passed this on as `signal`; otherwise `signal`.
int asked_signal(int signal);
// Returns the flags --processes and --device as the user gave them to the first process: " --processes 2".
std::string process_flags(const TrainArguments& arguments);

int run_eval(const EvalArguments& arguments);

struct ScoreArguments {
  std::string annotations, detections, json, evaluator = "coco";
  std::string images;             // for formats that need the image folder
  std::vector<std::string> data;  // instead of both: folders, of which `split` is scored
  std::string split = "val";
  std::vector<std::string> classes;  // as for eval
  std::vector<std::string> set;      // edits of data.class_map: how the data's classes are named or merged
  std::string checkpoint;            // the checkpoint whose classes the annotations have
  bool per_class = false;
  MetricOptions metric_options;
};
int run_score(const ScoreArguments& arguments);

int run_predict(const PredictArguments& arguments);

struct ServeArguments {
  std::string checkpoint, device = "auto";
  std::string host = "127.0.0.1";   // an address of this machine
  int64_t port = 8080;              // 0: any free port
  std::string precision;            // if empty, the configuration's
  std::vector<std::string> set;     // edits of fields that affect inference
  int64_t image_size = 0;           // 0: the evaluation size of the configuration
  std::optional<double> threshold;  // of boxes, if a request names none; 0.5 if unset
  int64_t max_batch = 8;            // most images computed at once
  int64_t queue = 64;               // most requests that wait or are being answered
  int64_t max_bytes = 20 << 20;     // most bytes of a request
  int64_t max_pixels = 50'000'000;  // most pixels of an image
  double timeout = 30;              // seconds within which a whole request must arrive
};
int run_serve(const ServeArguments& arguments);

struct BenchArguments {
  std::string checkpoint, json, device = "auto";
  std::string precision;                          // if empty, the configuration's
  int64_t batch_size = 1, height = 0, width = 0;  // 0: the evaluation size of the configuration
  double seconds = 5;
};
int run_bench(const BenchArguments& arguments);

struct ExportArguments {
  std::string checkpoint, output;    // a checkpoint, or a recipe for random weights
  std::vector<std::string> set;      // edits of a recipe, or of fields that affect inference
  int64_t height = 0, width = 0;     // 0: the evaluation size of the configuration
  int64_t image_size = 0;            // sets both height and width
  int64_t batch = 1;                 // 0: any number (dynamic)
  std::string input = "normalized";  // what the input `images` holds: normalized, unit, bytes
  bool postprocess = false;          // adds the outputs labels, boxes and scores
  bool raw_outputs = false;          // keeps the raw outputs too
  std::string sample;                // a file for random input and the model's outputs for it
};
int run_export(const ExportArguments& arguments);

struct SummaryArguments {
  std::string config, json;
  std::string model;  // instead of `config`: the name of a recipe
  std::vector<std::string> set;
  int64_t height = 0, width = 0;  // 0: the evaluation size of the configuration
};
int run_summary(const SummaryArguments& arguments);

struct ShapesArguments {
  std::string output;
  int64_t images = 0, size = 0;  // if size is 0, the generator's default
  uint64_t seed = 0;
};
int run_data_shapes(const ShapesArguments& arguments);

struct CheckArguments {
  std::string annotations, images;
  bool allow_outside = false;
  std::vector<std::string> data;     // instead of both: folders, with all their splits
  std::vector<std::string> classes;  // only these; if empty, all
  std::vector<std::string> set;      // as for score
  std::string fix;                   // the valid part is written to this file, or for `data` to this folder
  bool masks = false;                // treats an object without a mask as a fault
};
int run_data_check(const CheckArguments& arguments);

struct DataReportArguments {
  std::string annotations, images, output;
  std::vector<std::string> data;     // instead of the first two: folders, with all their splits
  std::vector<std::string> classes;  // only these; if empty, all
  std::vector<std::string> set;      // as for score
  bool allow_outside = false;
  int64_t look_at = 20000;  // most images to read
};
int run_data_report(const DataReportArguments& arguments);

struct DataShowArguments {
  std::string config, output;
  std::string model;                       // or the name of a recipe, fitted to the data
  std::vector<std::string> data, classes;  // as for train
  std::vector<std::string> set;
  QuickFlags quick;
  int64_t batches = 0, images = 0;  // how many to show; one batch if both are 0
  int64_t step = 1;                 // the training step at which to start
};
int run_data_show(const DataShowArguments& arguments);

struct DataConvertArguments {
  std::string input, output;         // a folder or an annotation file; a folder
  std::vector<std::string> data;     // further data sets, merged with the input
  std::vector<std::string> classes;  // only these; if empty, all
  std::vector<std::string> set;      // as for score
  std::string images;                // the image folder of an annotation file
  std::string from, to = "coco";     // formats; if `from` is empty, it follows from the paths
  std::vector<std::string> rename;   // "a=b"
  std::vector<std::string> drop;     // names of classes
  bool drop_empty = false;           // leaves out images without boxes
  std::vector<double>
      shares;         // of training, validation and test images, drawn anew; if empty, the splits stay
  uint64_t seed = 0;  // of that random draw
  int64_t most = 0;   // most images of a split; 0: all
  bool allow_outside = false;
};
int run_data_convert(const DataConvertArguments& arguments);

struct ReportArguments {
  std::string run, output;             // default output: RUN/report.html, or comparison.html of several runs
  std::vector<std::string> others;     // runs to compare it with
  std::string json;                    // a file for the metrics at full precision
  std::string csv;                     // a file for what the runs have logged
  std::string checkpoint, detections;  // instead of the run's best checkpoint, and of evaluating it
  // The validation set, if it is not where the run's configuration says; as for eval. The evaluation covers
  // only `classes`.
  std::string annotations, images;
  std::vector<std::string> data, classes;
  std::vector<std::string> set;  // as for score, added to the run's
  std::string split = "val", device = "auto";
  std::optional<double> threshold;  // of the confusion matrix and the pictures; unset: the one of the best F1
  int64_t batch_size = 0;           // 0: the configuration's
  bool allow_outside = false;
  bool curves_only = false;  // evaluates nothing
  MetricOptions metric_options;
  LabelErrorOptions label_errors;
};
int run_report(const ReportArguments& arguments);

struct ConvertArguments {
  std::string input, output;        // the input may also be the name of published weights
  std::string config, annotations;  // if empty, they follow from the weights
  std::string key;                  // the key in a .pth file's dictionary; if empty, a usual one
  std::vector<std::string> set;
};
int run_convert(const ConvertArguments& arguments);

struct WeightsListArguments {
  std::string json;
};
int run_weights_list(const WeightsListArguments& arguments);

struct WeightsArguments {
  std::vector<std::string> names;  // for verify, none means all that are in the cache
};
int run_weights_fetch(const WeightsArguments& arguments);
int run_weights_verify(const WeightsArguments& arguments);

struct DescribeArguments {
  // If empty, lists the layers; "models": the recipes, or the name of one of them; "config": the fields of
  // the configuration.
  std::string layer;
};
int run_describe(const DescribeArguments& arguments);

struct CompletionArguments {
  std::string shell;
};
int run_completion(const CompletionArguments& arguments);

}  // namespace saccade
