// The commands of the program: what each is given on the command line (train/commands/cli/cli.cpp) and the
// function that runs it. A command returns the exit status, or throws InputError (exit 2) or another
// exception (exit 1).
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
  std::string init_from;             // a file, or published weights by name
  std::string model;                 // or a recipe by its name, fitted to the data
  std::vector<std::string> data;     // instead of the recipe's data sets: folders that hold them
  std::vector<std::string> classes;  // only these; empty: the configuration's
  std::vector<std::string> set;
  QuickFlags quick;
  std::vector<std::string> freeze;  // parameters that are not trained, by regex
  int64_t overfit = 0;              // only so many images, see data.overfit
  bool resume = false;
  bool quiet = false;  // nothing on stdout
  std::string trial_batch = "auto";
  bool reinit_heads = false;     // with init_from
  bool official_recipe = false;  // likewise, with a model: the recipe is not fitted to fine-tuning
  std::string key;               // of the dictionary in init_from, as convert's
  int64_t max_steps = 0;  // stops there, without changing the schedule; 0: where the configuration ends
  int64_t processes = 0;  // starts so many that train together; 0: this one trains
  RankFlags ranks;        // which of several this one is
};
int run_train(const TrainArguments& arguments);
// Starts arguments.processes processes of this program on this machine and waits for them. SIGINT and SIGTERM
// end the run after its step, with everything saved. (launch.cpp)
int launch_processes(const TrainArguments& arguments);
// Of a process that it has started: throws InputError where there are not as many ranks as were asked for.
void check_launched(int ranks);
// The signal that the launcher was asked to stop by, where it has sent this one on.
int asked_signal(int signal);
// The flags --processes and --device as the user gave them to the first process: " --processes 2".
std::string process_flags(const TrainArguments& arguments);

int run_eval(const EvalArguments& arguments);

struct ScoreArguments {
  std::string annotations, detections, json, evaluator = "coco";
  std::string images;             // of formats that need it
  std::vector<std::string> data;  // instead of both: folders, and which of their splits
  std::string split = "val";
  std::vector<std::string> classes;  // as eval
  std::vector<std::string> set;      // of data.class_map: what the data's classes are taken for
  std::string checkpoint;            // whose classes the annotations are of
  bool per_class = false;
  MetricOptions metric_options;
};
int run_score(const ScoreArguments& arguments);

int run_predict(const PredictArguments& arguments);

struct ServeArguments {
  std::string checkpoint, device = "auto";
  std::string host = "127.0.0.1";   // an address of this machine
  int64_t port = 8080;              // 0: a free one
  std::string precision;            // "": the configuration's
  std::vector<std::string> set;     // of what inference depends on
  int64_t image_size = 0;           // 0: the configuration's, of the evaluation
  std::optional<double> threshold;  // of boxes, where a request names none; unset: 0.5
  int64_t max_batch = 8;            // images at a time
  int64_t queue = 64;               // requests that wait or are answered
  int64_t max_bytes = 20 << 20;     // of a request
  int64_t max_pixels = 50'000'000;  // of an image
  double timeout = 30;              // seconds in which a request must be there
};
int run_serve(const ServeArguments& arguments);

struct BenchArguments {
  std::string checkpoint, json, device = "auto";
  std::string precision;                          // "": the configuration's
  int64_t batch_size = 1, height = 0, width = 0;  // 0: the configuration's evaluation size
  double seconds = 5;
};
int run_bench(const BenchArguments& arguments);

struct ExportArguments {
  std::string checkpoint, output;    // or a recipe, for random weights
  std::vector<std::string> set;      // of a recipe, or of what inference depends on
  int64_t height = 0, width = 0;     // 0: the configuration's evaluation size
  int64_t image_size = 0;            // both
  int64_t batch = 1;                 // 0: dynamic
  std::string input = "normalized";  // what `images` holds: normalized, unit, bytes
  bool postprocess = false;          // labels, boxes, scores
  bool raw_outputs = false;          // these too
  std::string sample;                // noise and the model's outputs for it
};
int run_export(const ExportArguments& arguments);

struct SummaryArguments {
  std::string config, json;
  std::string model;  // or a recipe by its name
  std::vector<std::string> set;
  int64_t height = 0, width = 0;  // 0: the configuration's evaluation size
};
int run_summary(const SummaryArguments& arguments);

struct ShapesArguments {
  std::string output;
  int64_t images = 0, size = 0;  // size 0: the generator's own
  uint64_t seed = 0;
};
int run_data_shapes(const ShapesArguments& arguments);

struct CheckArguments {
  std::string annotations, images;
  bool allow_outside = false;
  std::vector<std::string> data;     // instead of both: folders, all of their splits
  std::vector<std::string> classes;  // only these; empty: all
  std::vector<std::string> set;      // as score's
  std::string fix;                   // what is right goes into this file, or with data into this folder
  bool masks = false;                // an object without a mask is a fault
};
int run_data_check(const CheckArguments& arguments);

struct DataReportArguments {
  std::string annotations, images, output;
  std::vector<std::string> data;     // instead of the first two: folders, all of their splits
  std::vector<std::string> classes;  // only these; empty: all
  std::vector<std::string> set;      // as score's
  bool allow_outside = false;
  int64_t look_at = 20000;  // images at most
};
int run_data_report(const DataReportArguments& arguments);

struct DataShowArguments {
  std::string config, output;
  std::string model;                       // or a recipe by its name, fitted to the data
  std::vector<std::string> data, classes;  // as train's
  std::vector<std::string> set;
  QuickFlags quick;
  int64_t batches = 0, images = 0;  // how many; 0 both: one batch
  int64_t step = 1;                 // of the training, from which on
};
int run_data_show(const DataShowArguments& arguments);

struct DataConvertArguments {
  std::string input, output;         // a folder or a file of annotations; a folder
  std::vector<std::string> data;     // further sets, united with the input
  std::vector<std::string> classes;  // only these; empty: all
  std::vector<std::string> set;      // as score's
  std::string images;                // of a file
  std::string from, to = "coco";     // formats; from "": as the paths look
  std::vector<std::string> rename;   // "a=b"
  std::vector<std::string> drop;     // classes
  bool drop_empty = false;           // images without boxes
  std::vector<double>
      shares;         // of training, validation and test images, drawn again; empty: the existing splits
  uint64_t seed = 0;  // of that draw
  int64_t most = 0;   // images of a split; 0: all
  bool allow_outside = false;
};
int run_data_convert(const DataConvertArguments& arguments);

struct ReportArguments {
  std::string run, output;             // output "": RUN/report.html, or of several runs comparison.html
  std::vector<std::string> others;     // runs that are compared with it
  std::string json;                    // the metrics at full precision
  std::string csv;                     // what the runs have logged
  std::string checkpoint, detections;  // instead of the run's best, and of evaluating it
  // The validation set, where it is not where the run's configuration says; as eval takes it.
  std::string annotations, images;
  std::vector<std::string> data, classes;  // classes: of which the evaluation is
  std::vector<std::string> set;            // as score's, added to the run's
  std::string split = "val", device = "auto";
  std::optional<double> threshold;  // of the confusion matrix and the pictures; unset: the one of the best F1
  int64_t batch_size = 0;           // 0: the configuration's
  bool allow_outside = false;
  bool curves_only = false;  // nothing is evaluated
  MetricOptions metric_options;
  LabelErrorOptions label_errors;
};
int run_report(const ReportArguments& arguments);

struct ConvertArguments {
  std::string input, output;        // input: or published weights by name
  std::string config, annotations;  // "": from the weights
  std::string key;                  // of the dictionary in a .pth file; "": one of the usual ones
  std::vector<std::string> set;
};
int run_convert(const ConvertArguments& arguments);

struct WeightsListArguments {
  std::string json;
};
int run_weights_list(const WeightsListArguments& arguments);

struct WeightsArguments {
  std::vector<std::string> names;  // of verify: none, then all that are in the cache
};
int run_weights_fetch(const WeightsArguments& arguments);
int run_weights_verify(const WeightsArguments& arguments);

struct DescribeArguments {
  // "": lists the layers; "models": the recipes, or one of their names; "config":
  // the fields of the configuration
  std::string layer;
};
int run_describe(const DescribeArguments& arguments);

struct CompletionArguments {
  std::string shell;
};
int run_completion(const CompletionArguments& arguments);

}  // namespace saccade
