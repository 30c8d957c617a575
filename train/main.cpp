#include "train/commands/cli/cli.h"

int main(int argc, char** argv) {
  saccade::prepare_process();
  return saccade::run_command_line(argc, argv);
}
