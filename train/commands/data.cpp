// saccade data: shapes (a synthetic data set) and check (every fault of a data set).
#include "core/tensor/error.h"
#include "data/formats/data_format.h"
#include "data/shapes/shapes_dataset.h"
#include "train/commands/commands.h"
#include "train/logs/print.h"
#include "train/logs/progress.h"

namespace saccade {

int run_data_shapes(const ShapesArguments& arguments) {
  ShapesOptions options;
  options.images = arguments.images;
  options.seed = arguments.seed;
  if (arguments.size > 0) options.min_side = options.max_side = arguments.size;
  ProgressCounter progress("shapes", arguments.images, "images");
  options.progress = [&progress](int64_t) { progress.add(1); };
  write_shapes_dataset(arguments.output, options);
  progress.finish();
  print_line("wrote {0}/annotations.json and {1} images in {0}/images", arguments.output, arguments.images);
  return 0;
}

int run_data_check(const CheckArguments& arguments) {
  const DatasetReport report = check_detection_dataset({.annotations = arguments.annotations,
                                                        .images = arguments.images,
                                                        .allow_outside = arguments.allow_outside});
  for (const std::string& line : report.summary) print_line(line);
  for (const std::string& line : report.remarks) print_line("note: {}", line);
  const int64_t problems = report.problems.count();
  if (problems == 0) {
    print_line("{}: no problems found", arguments.annotations);
    return 0;
  }
  for (const std::string& line : report.problems.lines()) print_line(line);
  fail_input("{}: {} problem{}, listed above; expected none", arguments.annotations, problems,
             problems == 1 ? "" : "s");
}

}  // namespace saccade
