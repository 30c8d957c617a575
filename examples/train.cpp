// Trains from a recipe, step by step: train_steps RECIPE RUN_FOLDER STEPS [path.to.field=value]...
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <saccade/saccade.hpp>

int main(int argc, char** argv) {
  if (argc < 4)
    return std::fprintf(stderr, "usage: train_steps RECIPE RUN_FOLDER STEPS [FIELD=VALUE]...\n"), 2;
  try {
    saccade::TrainingSetup setup;
    setup.config = argv[1];
    setup.output = argv[2];
    setup.set.assign(argv + 4, argv + argc);
    saccade::Training training(setup);
    const long steps = std::atol(argv[3]);
    while (training.steps_done() < steps && training.step())
      std::printf("step %ld: loss %.4f\n", long(training.steps_done()), training.metrics()["loss"]);
    training.save();
    const saccade::Model model(setup.output + "/checkpoints/last.safetensors");
    std::printf("%zu classes, saved after %ld steps\n", model.class_names().size(),
                long(training.steps_done()));
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "error: %s\n", error.what()), 1;
  }
}
